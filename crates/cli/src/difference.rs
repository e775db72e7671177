//! `snapshot diff`: a difference comes in pages, so that its length is not bounded by memory.

use mjolnir_engine::DiffExtent;

use crate::door::Door;
use crate::failure::Failure;
use crate::output;
use crate::request::{Request, Response};

/// Asks for what differs between two targets, page by page, and prints it.
pub async fn print(door: &mut Door, old: String, new: String, json: bool) -> Result<(), Failure> {
    let (mut from, mut told) = (Some(0), 0);
    // The last extent so far: the next page may go on with it.
    let mut held = None;
    while let Some(at) = from {
        let request = Request::Diff { old: old.clone(), new: new.clone(), from: at };
        let answer = door.ask(request, &|_| {}).await;
        let Response::Diff(page) = answer.map_err(|refusal| Failure::new(refusal.message))? else {
            return Err(Failure::new("the server answered something else than was asked"));
        };
        // A page that brings nothing and leads nowhere would go on for ever.
        from = page.next.filter(|next| *next > at);
        let mut extents = joined(held.take(), page.extents);
        if from.is_some() {
            held = extents.pop();
        }
        output::print(&match json {
            true => as_json(&extents, told, from.is_none())?,
            false => text(&extents, at == 0),
        })?;
        told += extents.len();
    }
    Ok(())
}

/// A page with the last extent of the one before, which is one with the first if it goes on there.
fn joined(last: Option<DiffExtent>, mut page: Vec<DiffExtent>) -> Vec<DiffExtent> {
    match (last, page.first_mut()) {
        (None, _) => {}
        (Some(last), Some(first))
            if last.offset + last.length == first.offset && last.data == first.data =>
        {
            *first = DiffExtent { length: last.length + first.length, ..last };
        }
        (Some(last), _) => page.insert(0, last),
    }
    page
}

/// Extents as text; with heads if they are the first.
pub fn text(extents: &[DiffExtent], first: bool) -> String {
    let mut text =
        if first { format!("{:>16} {:>16}  NOW\n", "OFFSET", "LENGTH") } else { String::new() };
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

    fn extent(offset: u64, length: u64, data: bool) -> DiffExtent {
        DiffExtent { offset, length, data }
    }

    #[test]
    fn pages_of_a_difference_make_one_list() {
        let pages = [vec![], vec![extent(4096, 4096, true)], vec![extent(8192, 4096, true)]];
        for count in 1..=3 {
            let mut told = 0;
            let mut text = String::new();
            for (index, page) in pages[..count].iter().enumerate() {
                text += &as_json(page, told, index + 1 == count).unwrap();
                told += page.len();
            }
            let list: Vec<DiffExtent> = serde_json::from_str(&text).unwrap_or_else(|error| {
                panic!("{error} in {text}");
            });
            assert_eq!(list.len(), count - 1);
        }
    }

    #[test]
    fn an_extent_across_two_pages_is_one() {
        let last = Some(extent(0, 8192, true));
        let page = vec![extent(8192, 4096, true), extent(16384, 4096, true)];
        let whole = vec![extent(0, 12288, true), extent(16384, 4096, true)];
        assert_eq!(joined(last, page), whole);
        for next in [extent(8192, 4096, false), extent(12288, 4096, true)] {
            assert_eq!(joined(last, vec![next]), [extent(0, 8192, true), next]);
        }
        assert_eq!(joined(last, vec![]), [extent(0, 8192, true)]);
        assert_eq!(joined(None, vec![extent(0, 1, true)]), [extent(0, 1, true)]);
    }
}
