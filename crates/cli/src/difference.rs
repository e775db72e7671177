//! `snapshot diff`: a difference comes in pages, so that its length is not bounded by memory.

use mjolnir_store::{DiffExtent, DiffPage};

use crate::door::Door;
use crate::failure::Failure;
use crate::output;
use crate::request::{Request, Response};

/// Asks for what differs between two targets, page by page, and prints it.
pub async fn print(door: &mut Door, old: String, new: String, json: bool) -> Result<(), Failure> {
    let (mut from, mut told, mut pages) = (Some(0), 0, Pages::default());
    while let Some(at) = from {
        let request = Request::Diff { old: old.clone(), new: new.clone(), from: at };
        let answer = match door.ask(request, &|_| {}).await {
            Ok(Response::Diff(page)) => Ok(page),
            Ok(_) => Err(Failure::new("the server answered something else than was asked")),
            Err(refusal) => Err(Failure::new(refusal.message)),
        };
        // Where it breaks off, what is known is told all the same.
        let (page, failed) = match answer {
            Ok(page) => (page, None),
            Err(failure) => (DiffPage { extents: vec![], next: None }, Some(failure)),
        };
        // A page that brings nothing and leads nowhere would go on for ever.
        from = page.next.filter(|next| *next > at);
        let extents = pages.take(page.extents, from.is_none());
        output::print(&match json {
            true => as_json(&extents, told, from.is_none() && failed.is_none())?,
            false => text(&extents, told == 0),
        })?;
        failed.map_or(Ok(()), Err)?;
        told += extents.len();
    }
    if told == 0 && !json {
        output::print(&format!("nothing differs between {old} and {new}\n"))?;
    }
    Ok(())
}

/// Makes one of extents that go on from one page to the next.
#[derive(Default)]
struct Pages {
    /// The last extent so far: the next page may go on with it.
    held: Option<DiffExtent>,
}

impl Pages {
    /// What can be told after another page: all that is left after the last one.
    fn take(&mut self, mut page: Vec<DiffExtent>, is_last: bool) -> Vec<DiffExtent> {
        match (self.held.take(), page.first_mut()) {
            (None, _) => {}
            (Some(held), Some(first))
                if held.offset + held.length == first.offset && held.data == first.data =>
            {
                *first = DiffExtent { length: held.length + first.length, ..held };
            }
            (Some(held), _) => page.insert(0, held),
        }
        if !is_last {
            self.held = page.pop();
        }
        page
    }
}

/// Extents as text; with heads if they are the first. Of none there is nothing to tell.
pub fn text(extents: &[DiffExtent], first: bool) -> String {
    let mut text = match first && !extents.is_empty() {
        true => format!("{:>16} {:>16}  NOW\n", "OFFSET", "LENGTH"),
        false => String::new(),
    };
    for extent in extents {
        let now = if extent.data { "data" } else { "hole" };
        text += &format!("{:>16} {:>16}  {now}\n", extent.offset, extent.length);
    }
    text
}

/// Extents as a part of one JSON list, one on a line. `told` counts those before.
fn as_json(extents: &[DiffExtent], told: usize, last: bool) -> Result<String, Failure> {
    let mut text = String::new();
    for (index, extent) in extents.iter().enumerate() {
        text += if told + index == 0 { "[\n  " } else { ",\n  " };
        text += &serde_json::to_string(extent)
            .map_err(|error| Failure::new(format!("encoding as JSON: {error}")))?;
    }
    if last {
        text += if told + extents.len() == 0 { "[]\n" } else { "\n]\n" };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However a list is cut into pages, empty ones among them, it is told whole: neighbours of a kind that
    /// a cut parted are one.
    #[test]
    fn pages_make_one_list() {
        let extent = |(offset, length, data)| DiffExtent { offset, length, data };
        let whole = [(0, 4, true), (4, 8, false), (12, 4, true), (20, 4, true), (24, 4, false)];
        let whole = whole.map(extent);
        // A cut after each block whose bit is set.
        for cuts in (0..2000_u32).map(|n| n.wrapping_mul(0x9E37_79B9) >> 4) {
            let mut pages: Vec<Vec<DiffExtent>> = vec![vec![]];
            for one in whole {
                for offset in one.offset..one.offset + one.length {
                    let page = pages.last_mut().expect("there is one");
                    match page.last_mut() {
                        Some(last)
                            if last.offset + last.length == offset && last.data == one.data =>
                        {
                            last.length += 1;
                        }
                        _ => page.push(DiffExtent { offset, length: 1, data: one.data }),
                    }
                    if cuts >> offset & 1 != 0 {
                        pages.push(vec![]);
                    }
                }
            }
            let (mut joined, mut told, mut json) = (Pages::default(), Vec::new(), String::new());
            let last = pages.len() - 1;
            for (number, page) in pages.into_iter().enumerate() {
                let extents = joined.take(page, number == last);
                json += &as_json(&extents, told.len(), number == last).unwrap();
                told.extend(extents);
            }
            assert_eq!(told, whole, "{cuts:b}");
            let listed: Vec<DiffExtent> = serde_json::from_str(&json).unwrap_or_else(|error| {
                panic!("{error} in {json}");
            });
            assert_eq!(listed, whole);
        }
    }

    #[test]
    fn nothing_is_an_empty_list() {
        assert_eq!(as_json(&Pages::default().take(vec![], true), 0, true).unwrap(), "[]\n");
    }
}
