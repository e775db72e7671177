//! The read-back oracle: which tags a read may return.
//!
//! Of requests that overlap in time nobody says which came first: a read may return what was there
//! before a write under way, or what it wrote, and of several writes under way at once any may
//! last.

use std::collections::BTreeMap;

/// Tags by block, and what is under way.
#[derive(Default)]
pub(super) struct Oracle {
    /// What a block holds, as long as no write of it is under way or undecided; 0 for nothing.
    current: Vec<u64>,
    unsettled: BTreeMap<u64, Unsettled>,
    readers: Vec<Option<Reader>>,
    next_tag: u64,
}

/// A block whose content is not known for sure.
struct Unsettled {
    under_way: u32,
    /// Whether no other write was under way at the same time as the one that is.
    alone: bool,
    /// What it may hold.
    tags: Vec<u64>,
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
            Some(unsettled) => unsettled.tags.clone(),
            None => vec![self.current[block as usize]],
        }
    }

    /// A write of blocks begins, whose tags count up from `first_tag`; or a trim, with none.
    pub fn begin_write(&mut self, first: u64, count: u64, first_tag: Option<u64>) {
        for block in first..first + count {
            let tag = first_tag.map_or(0, |tag| tag + (block - first));
            let current = self.current[block as usize];
            let unsettled = self.unsettled.entry(block);
            let unsettled = unsettled.or_insert_with(|| Unsettled {
                under_way: 0,
                alone: true,
                tags: vec![current],
            });
            unsettled.alone = unsettled.under_way == 0;
            unsettled.under_way += 1;
            unsettled.tags.push(tag);
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
        for block in first..first + count {
            let tag = first_tag.map_or(0, |tag| tag + (block - first));
            let Some(unsettled) = self.unsettled.get_mut(&block) else { continue };
            unsettled.under_way -= 1;
            if unsettled.alone {
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

    /// What each block holds, once nothing is under way.
    pub fn settled_tags(self) -> Vec<u64> {
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
}
