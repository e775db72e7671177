//! The read-back oracle: which tags a read may return.
//!
//! Of requests that overlap in time nobody says which came first: a read may return what was there
//! before a write under way, or what it wrote, and of several writes under way at once any may
//! last. A write that ended before another began is overwritten once that one has ended too.

use std::collections::BTreeMap;

/// Tags by block, and what is under way.
#[derive(Default)]
pub(super) struct Oracle {
    /// What a block holds, as long as no write of it is under way or undecided; 0 for nothing.
    current: Vec<u64>,
    unsettled: BTreeMap<u64, Unsettled>,
    readers: Vec<Option<Reader>>,
    next_tag: u64,
    /// Beginnings and ends of writes so far.
    steps: u64,
}

/// A block whose content is not known for sure: what was written to it, as far as nothing that has
/// ended came wholly after it.
type Unsettled = Vec<Content>;

/// What a write made of a block.
struct Content {
    tag: u64,
    /// When its write began, and when it ended if it has, in steps of the oracle.
    began: u64,
    ended: Option<u64>,
}

/// A read that is under way.
struct Reader {
    first: u64,
    /// For each of its blocks, what it may return.
    allowed: Vec<Vec<u64>>,
}

impl Oracle {
    /// For a drive of so many blocks, all of them empty.
    pub fn new(blocks: u64) -> Self {
        Oracle { current: vec![0; blocks as usize], next_tag: 2, ..Oracle::default() }
    }

    /// For a drive that holds these tags.
    pub fn with(current: Vec<u64>) -> Self {
        let next_tag = current.iter().max().copied().unwrap_or(0).max(1) + 1;
        Oracle { current, next_tag, ..Oracle::default() }
    }

    /// Tags that no block had before: the first of `count` in a row.
    pub fn draw(&mut self, count: u64) -> u64 {
        let first = self.next_tag;
        self.next_tag += count;
        first
    }

    fn may_hold(&self, block: u64) -> Vec<u64> {
        match self.unsettled.get(&block) {
            Some(unsettled) => unsettled.iter().map(|content| content.tag).collect(),
            None => vec![self.current[block as usize]],
        }
    }

    /// A write of blocks begins, whose tags count up from `first_tag`; or a trim, with none.
    pub fn begin_write(&mut self, first: u64, count: u64, first_tag: Option<u64>) {
        self.steps += 1;
        for block in first..first + count {
            let tag = first_tag.map_or(0, |tag| tag + (block - first));
            let current = self.current[block as usize];
            let before = || vec![Content { tag: current, began: 0, ended: Some(0) }];
            let unsettled = self.unsettled.entry(block).or_insert_with(before);
            unsettled.push(Content { tag, began: self.steps, ended: None });
            for reader in self.readers.iter_mut().flatten() {
                if let Some(at) = block.checked_sub(reader.first)
                    && let Some(allowed) = reader.allowed.get_mut(at as usize)
                {
                    allowed.push(tag);
                }
            }
        }
    }

    /// It has ended.
    pub fn end_write(&mut self, first: u64, count: u64, first_tag: Option<u64>) {
        self.steps += 1;
        for block in first..first + count {
            let tag = first_tag.map_or(0, |tag| tag + (block - first));
            let Some(unsettled) = self.unsettled.get_mut(&block) else { continue };
            // Of several trims nobody can tell which it was: the earliest refuses the least.
            let mut under_way = unsettled.iter_mut().filter(|content| content.ended.is_none());
            let Some(own) = under_way.find(|content| content.tag == tag) else { continue };
            own.ended = Some(self.steps);
            let began = own.began;
            unsettled.retain(|content| content.ended.is_none_or(|ended| ended > began));
            if let [Content { tag, ended: Some(_), .. }] = unsettled[..] {
                self.current[block as usize] = tag;
                self.unsettled.remove(&block);
            }
        }
    }

    /// A read of blocks begins. Give what this returns to [`end_read`](Self::end_read).
    pub fn begin_read(&mut self, first: u64, count: u64) -> usize {
        let allowed = (first..first + count).map(|block| self.may_hold(block)).collect();
        let reader = Some(Reader { first, allowed });
        match self.readers.iter().position(Option::is_none) {
            Some(place) => {
                self.readers[place] = reader;
                place
            }
            None => {
                self.readers.push(reader);
                self.readers.len() - 1
            }
        }
    }

    /// It has ended, and returned these tags. The error names the first block that is wrong.
    pub fn end_read(&mut self, reader: usize, tags: &[u64]) -> Result<(), String> {
        let Some(reader) = self.readers.get_mut(reader).and_then(Option::take) else {
            return Ok(());
        };
        if tags.len() != reader.allowed.len() {
            return Err(format!(
                "a read of {} blocks at block {} of the drive returned {}",
                reader.allowed.len(),
                reader.first,
                tags.len()
            ));
        }
        for ((block, allowed), tag) in (reader.first..).zip(&reader.allowed).zip(tags) {
            if !allowed.contains(tag) {
                return Err(format!(
                    "block {block} of the drive was read back wrong: it has the content of write \
                     {tag}, and should have that of write {}",
                    allowed.last().copied().unwrap_or(0)
                ));
            }
        }
        Ok(())
    }

    /// What each block holds, where no writes ever overlapped.
    pub fn settled_tags(self) -> Vec<u64> {
        assert!(self.unsettled.is_empty(), "of writes that overlap nobody knows which came last");
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_may_come_in_any_order_and_what_does_not_may_not() {
        let mut oracle = Oracle::new(4);
        oracle.begin_write(0, 2, Some(10));
        let early = oracle.begin_read(0, 2);
        oracle.end_read(early, &[0, 11]).expect("before or after");
        oracle.end_write(0, 2, Some(10));
        let late = oracle.begin_read(0, 2);
        oracle.begin_write(1, 1, Some(20));
        assert!(oracle.end_read(late, &[0, 11]).unwrap_err().contains("block 0"));
        let again = oracle.begin_read(1, 1);
        oracle.begin_write(1, 1, Some(30));
        oracle.end_write(1, 1, Some(30));
        oracle.end_write(1, 1, Some(20));
        oracle.end_read(again, &[30]).expect("it was written meanwhile");
        let either = oracle.begin_read(1, 1);
        oracle.end_read(either, &[20]).expect("either may have come last");
        oracle.begin_write(3, 1, None);
        oracle.end_write(3, 1, None);
        let trimmed = oracle.begin_read(3, 1);
        assert!(oracle.end_read(trimmed, &[9]).unwrap_err().contains("block 3"));
    }
    #[test]
    fn when_overlapping_writes_have_ended_what_was_there_before_is_gone() {
        let mut oracle = Oracle::new(1);
        oracle.begin_write(0, 1, Some(20));
        oracle.begin_write(0, 1, Some(30));
        oracle.end_write(0, 1, Some(20));
        oracle.end_write(0, 1, Some(30));
        for (tag, may) in [(20, true), (30, true), (0, false)] {
            let read = oracle.begin_read(0, 1);
            assert_eq!(oracle.end_read(read, &[tag]).is_ok(), may, "{tag}");
        }
        oracle.begin_write(0, 1, Some(40));
        oracle.end_write(0, 1, Some(40));
        assert_eq!(oracle.settled_tags(), [40], "one alone came last");
    }

    #[test]
    fn a_block_that_is_always_being_written_may_hold_only_what_is_recent() {
        let mut oracle = Oracle::new(1);
        oracle.begin_write(0, 1, Some(2));
        for tag in 3..1_000 {
            // Each overlaps the one before and the one after.
            oracle.begin_write(0, 1, Some(tag));
            oracle.end_write(0, 1, Some(tag - 1));
            let may_hold = oracle.may_hold(0);
            assert!(may_hold.len() <= 3 && may_hold.contains(&tag), "{may_hold:?}");
        }
        let read = oracle.begin_read(0, 1);
        assert!(oracle.end_read(read, &[500]).is_err(), "it was overwritten long ago");
    }

    #[test]
    fn a_read_that_returns_too_little_is_refused() {
        let mut oracle = Oracle::new(4);
        let read = oracle.begin_read(1, 3);
        let error = oracle.end_read(read, &[0, 0]).unwrap_err();
        assert!(error.contains("a read of 3 blocks at block 1 of the drive returned 2"), "{error}");
    }
}
