//! Clones and moves of ranges, and the replacement of a range by a rope, which all large changes
//! come down to.

use mjolnir_units::{Lba, TreeId};

use crate::{Absent, Map, Root};

impl Map {
    /// Makes `blocks` blocks of `to` refer to what those of `from` refer to. Any alignment; the
    /// ranges may overlap (the destination ends as the source was before).
    pub fn clone_range(
        &mut self,
        from: TreeId,
        from_lba: Lba,
        to: TreeId,
        to_lba: Lba,
        blocks: u64,
    ) -> Result<(), Absent> {
        self.check_range(from, from_lba, blocks);
        self.check_range(to, to_lba, blocks);
        if blocks == 0 || (from, from_lba) == (to, to_lba) {
            return Ok(());
        }
        self.probe_range(from, from_lba.0, blocks)?;
        self.probe_range(to, to_lba.0, blocks)?;
        self.split_oversize_ends(to, to_lba.0, blocks);
        let middle = self.extract(from, from_lba.0, from_lba.0 + blocks);
        self.replace_range(to, to_lba.0, to_lba.0 + blocks, middle);
        Ok(())
    }

    /// As [`clone_range`](Map::clone_range), and the source becomes a hole where the destination
    /// does not cover it. What nothing else shares stays unshared.
    pub fn move_range(
        &mut self,
        from: TreeId,
        from_lba: Lba,
        to: TreeId,
        to_lba: Lba,
        blocks: u64,
    ) -> Result<(), Absent> {
        self.check_range(from, from_lba, blocks);
        self.check_range(to, to_lba, blocks);
        if blocks == 0 || (from, from_lba) == (to, to_lba) {
            return Ok(());
        }
        self.probe_range(from, from_lba.0, blocks)?;
        self.probe_range(to, to_lba.0, blocks)?;
        self.split_oversize_ends(from, from_lba.0, blocks);
        self.split_oversize_ends(to, to_lba.0, blocks);
        let hole = self.hole(blocks);
        let end = from_lba.0 + blocks;
        let taken = self.swap_range(from, from_lba.0, end, hole);
        self.replace_range(to, to_lba.0, to_lba.0 + blocks, taken);
        Ok(())
    }

    /// Puts a rope of the same length in the place of blocks `lo..hi`, and drops what was there.
    pub(crate) fn replace_range(&mut self, tree: TreeId, lo: u64, hi: u64, with: Root) {
        let gone = self.swap_range(tree, lo, hi, with);
        self.table.drop_edge(gone.edge);
    }

    /// Puts a rope of the same length in the place of blocks `lo..hi` (not empty), and returns what
    /// was there. Both ends were probed.
    fn swap_range(&mut self, tree: TreeId, lo: u64, hi: u64, with: Root) -> Root {
        debug_assert_eq!(with.edge.blocks, hi - lo);
        let root = self.root(tree);
        let (left, rest) = self.cut_rope(Some(root), lo);
        let (taken, right) = self.cut_rope(rest, hi - lo);
        let joined = self.join_ropes(left, Some(with));
        let joined = self.join_ropes(joined, right).expect("the range has blocks");
        self.set_root(tree, joined);
        self.mend(tree, lo);
        self.mend(tree, hi);
        taken.expect("the range has blocks")
    }
}
