//! Space that deletions and trims leave behind, as far as is known.
//!
//! Overwrites make as much garbage as they write, and reclaim keeps pace with them. What is deleted
//! comes all at once: how much it was only a mark can tell, since snapshots share their blocks. It
//! shows as live blocks that are fewer than the last mark's. Clients that write new data meanwhile
//! make it look less; they also make space scarce, which hurries reclaim as well.

/// Blocks that ceased to be live otherwise than by overwrites.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Released {
    /// Live blocks of the last mark.
    live: Option<u64>,
    /// What marks have found, and reclaim has not won yet.
    found: u64,
    /// What may have come since the last mark began.
    reckoned: u64,
    /// What of it is judged by the mark under way.
    under_mark: u64,
}

impl Released {
    /// So many blocks may have ceased to be live.
    pub fn reckon(&mut self, blocks: u64) {
        self.reckoned = self.reckoned.saturating_add(blocks);
    }

    /// A mark begins, which will tell what of it is so.
    pub fn begin_mark(&mut self) {
        self.under_mark = self.under_mark.saturating_add(std::mem::take(&mut self.reckoned));
    }

    /// A mark found so many live blocks.
    pub fn end_mark(&mut self, live: u64) {
        self.under_mark = 0;
        if let Some(before) = self.live.replace(live) {
            self.found = self.found.saturating_add(before).saturating_sub(live);
        }
    }

    /// Reclaim has won so many blocks.
    pub fn won(&mut self, blocks: u64) {
        self.found = self.found.saturating_sub(blocks);
    }

    /// What is to be won.
    pub fn blocks(&self) -> u64 {
        self.found.saturating_add(self.reckoned).saturating_add(self.under_mark)
    }

    /// Whether a new mark may find that many blocks more.
    pub fn is_news(&self, blocks: u64) -> bool {
        self.reckoned >= blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reckoned_with_counts_until_a_mark_knows() {
        let mut released = Released::default();
        released.begin_mark();
        released.end_mark(1000);
        assert_eq!(released.blocks(), 0, "the first mark has nothing to compare with");
        released.reckon(64);
        assert!(released.is_news(64) && !released.is_news(65));
        released.begin_mark();
        assert!(!released.is_news(1));
        released.reckon(7);
        assert_eq!(released.blocks(), 71);
        released.end_mark(700);
        assert_eq!(released.blocks(), 307);
        released.won(250);
        assert_eq!(released.blocks(), 57);
        released.begin_mark();
        released.end_mark(720);
        assert_eq!(released.blocks(), 30, "what clients wrote anew took the place of some");
        released.won(100);
        assert_eq!(released.blocks(), 0);
    }
}
