//! Space that deletions and trims leave behind, as far as is known.
//!
//! Overwrites make as much garbage as they write, and reclaim keeps pace with them. Deletions make garbage
//! all at once. Only a mark can tell how much, since snapshots share blocks, and a trimmed range may have been
//! empty: the mark finds fewer live blocks than the last mark found and clients wrote since. Blocks that
//! clients overwrote meanwhile are counted along, but no more than may have been deleted. Before the mark, the
//! number that may have been deleted does no more than hasten it. The first mark after opening has nothing to
//! compare with, so garbage of earlier deletions is won at the pace of overwrites.

/// Blocks that ceased to be live otherwise than by overwrites.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Released {
    /// Live blocks of the last mark.
    live: Option<u64>,
    /// Blocks that clients had written when it ended.
    written: u64,
    /// Blocks that marks have found, and reclaim has not won yet.
    found: u64,
    /// Blocks that may have been released since the last mark began.
    reckoned: u64,
    /// Blocks that may have been released before it, and after the mark before that began.
    sought: u64,
}

impl Released {
    /// At most `blocks` more blocks ceased to be live.
    pub fn reckon(&mut self, blocks: u64) {
        self.reckoned = self.reckoned.saturating_add(blocks);
    }

    /// A mark begins. It will tell how many of the reckoned blocks were released.
    pub fn begin_mark(&mut self) {
        self.sought = self.sought.saturating_add(std::mem::take(&mut self.reckoned));
    }

    /// The mark was given up: it told nothing.
    pub fn abort_mark(&mut self) {
        self.reckoned = self.reckoned.saturating_add(std::mem::take(&mut self.sought));
    }

    /// A mark found `live` live blocks, and clients have written `written` blocks by now.
    pub fn end_mark(&mut self, live: u64, written: u64) {
        let sought = std::mem::take(&mut self.sought);
        if let Some(before) = self.live.replace(live) {
            let gone = (before + written - self.written).saturating_sub(live);
            self.found = self.found.saturating_add(gone.min(sought));
        }
        self.written = written;
    }

    /// Reclaim has won `blocks` blocks.
    pub fn won(&mut self, blocks: u64) {
        self.found = self.found.saturating_sub(blocks);
    }

    /// Nothing is left that could be won: the found blocks are of no use.
    pub fn give_up(&mut self) {
        self.found = 0;
    }

    /// Blocks that are to be won.
    pub fn blocks(&self) -> u64 {
        self.found
    }

    /// Blocks that a new mark may find besides, at most.
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
