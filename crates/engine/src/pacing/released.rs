//! Space that deletions and trims leave behind, as far as is known.
//!
//! Overwrites make as much garbage as they write, and reclaim keeps pace with them. What is deleted
//! comes all at once: how much it was only a mark can tell, since snapshots share their blocks, and
//! what was trimmed may not have been there. It shows as live blocks that are fewer than the last
//! mark's and what clients wrote since; what they overwrote meanwhile counts along, up to what was
//! deleted at most. What is reckoned with before a mark does no more than hasten it. The first mark
//! after opening has nothing to compare with, so what was deleted before it is won at the pace of
//! overwrites.

/// Blocks that ceased to be live otherwise than by overwrites.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Released {
    /// Live blocks of the last mark.
    live: Option<u64>,
    /// Blocks that clients had written when it ended.
    written: u64,
    /// What marks have found, and reclaim has not won yet.
    found: u64,
    /// What may have come since the last mark began.
    reckoned: u64,
    /// What may have come before it, and after the one before that.
    sought: u64,
}

impl Released {
    /// At most so many blocks ceased to be live.
    pub fn reckon(&mut self, blocks: u64) {
        self.reckoned = self.reckoned.saturating_add(blocks);
    }

    /// A mark begins, which will tell how much of it is so.
    pub fn begin_mark(&mut self) {
        self.sought = self.sought.saturating_add(std::mem::take(&mut self.reckoned));
    }

    /// The mark was given up: it told nothing.
    pub fn abort_mark(&mut self) {
        self.reckoned = self.reckoned.saturating_add(std::mem::take(&mut self.sought));
    }

    /// A mark found so many live blocks; clients have written so many by now.
    pub fn end_mark(&mut self, live: u64, written: u64) {
        let sought = std::mem::take(&mut self.sought);
        if let Some(before) = self.live.replace(live) {
            let gone = (before + written - self.written).saturating_sub(live);
            self.found = self.found.saturating_add(gone.min(sought));
        }
        self.written = written;
    }

    /// Reclaim has won so many blocks.
    pub fn won(&mut self, blocks: u64) {
        self.found = self.found.saturating_sub(blocks);
    }

    /// Nothing is left that could be won: what is found is of no use.
    pub fn give_up(&mut self) {
        self.found = 0;
    }

    /// What is to be won.
    pub fn blocks(&self) -> u64 {
        self.found
    }

    /// What a new mark may find more, at most.
    pub fn reckoned(&self) -> u64 {
        self.reckoned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_what_ceased_to_be_live() {
        let mut released = Released::default();
        released.begin_mark();
        released.end_mark(1000, 50);
        assert_eq!(released.blocks(), 0, "the first mark has nothing to compare with");
        released.reckon(64);
        assert_eq!(released.reckoned(), 64);
        assert_eq!(released.blocks(), 0, "it may not have been there");
        released.begin_mark();
        assert_eq!(released.reckoned(), 0);
        released.abort_mark();
        assert_eq!(released.reckoned(), 64, "nobody has looked for it");
        released.begin_mark();
        released.reckon(1000);
        released.end_mark(700, 50);
        assert_eq!(released.reckoned(), 1000, "that mark may have been too early for it");
        assert_eq!(released.blocks(), 64, "no more than was deleted, though more was overwritten");
        released.won(50);
        assert_eq!(released.blocks(), 14);
        released.begin_mark();
        released.end_mark(800, 350);
        assert_eq!(released.blocks(), 214, "what clients wrote anew took the place of some");
        released.begin_mark();
        released.end_mark(500, 450);
        assert_eq!(released.blocks(), 214, "nothing was deleted");
        released.won(200);
        assert_eq!(released.blocks(), 14);
        released.give_up();
        assert_eq!(released.blocks(), 0);
    }
}
