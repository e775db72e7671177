//! Clones and moves of ranges, and the replacement of a range by a rope. Every large change is such
//! a replacement.

use mjolnir_units::{Lba, TreeId};

use crate::leaf::REPLACE_BLOCKS_MAX;
use crate::write::Origin;
use crate::{Absent, Map, Root, Run};

/// The most runs of a range that are copied one by one. For more runs, sharing whole nodes is
/// cheaper.
const SMALL_RUNS_MAX: usize = 12;

impl Map {
    /// Maps `blocks` blocks of `to` to the same physical blocks as those of `from`. Any alignment.
    /// The ranges may overlap: the destination ends as the source was before.
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
        self.table.again += 1;
        if self.is_small(to, to_lba.0, blocks)?
            && let Some(runs) = self.few_runs(from, from_lba, blocks)?
        {
            self.put_runs(to, to_lba.0, &runs);
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
    /// does not cover it. Unshared nodes stay unshared.
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
        self.table.again += 1;
        if self.is_small(from, from_lba.0, blocks)?
            && self.is_small(to, to_lba.0, blocks)?
            && let Some(runs) = self.few_runs(from, from_lba, blocks)?
        {
            let end = from_lba.0 + blocks;
            self.put_in_leaf(from, from_lba.0, end, None, Origin::Elsewhere);
            self.put_runs(to, to_lba.0, &runs);
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

    /// Whether a range lies in one or two leaves in memory: changing these in place is faster than
    /// cutting the range out.
    fn is_small(&self, tree: TreeId, lo: u64, blocks: u64) -> Result<bool, Absent> {
        let hi = lo + blocks;
        let spot = self.locate(tree, lo)?;
        if hi > spot.end {
            let next = self.locate(tree, spot.end)?;
            if hi > next.end {
                return Ok(false);
            }
            self.table.get(next.leaf)?;
        }
        self.table.get(spot.leaf)?;
        Ok(blocks <= REPLACE_BLOCKS_MAX)
    }

    /// The mapping of a range, if it has at most [`SMALL_RUNS_MAX`] runs.
    fn few_runs(&self, tree: TreeId, lba: Lba, blocks: u64) -> Result<Option<Vec<Run>>, Absent> {
        let runs = self.runs_within(tree, lba, blocks, SMALL_RUNS_MAX + 1)?;
        Ok((runs.len() <= SMALL_RUNS_MAX).then_some(runs))
    }

    /// Maps a range, whose leaves are in memory, to runs that were mapped elsewhere.
    fn put_runs(&mut self, tree: TreeId, lo: u64, runs: &[Run]) {
        let mut at = lo;
        for run in runs {
            self.put_in_leaf(tree, at, at + run.blocks, run.pba, Origin::Elsewhere);
            at += run.blocks;
        }
    }

    /// Replaces blocks `lo..hi` with a rope of the same length, and drops the old rope.
    pub(crate) fn replace_range(&mut self, tree: TreeId, lo: u64, hi: u64, with: Root) {
        let gone = self.swap_range(tree, lo, hi, with);
        self.let_go(gone.edge);
    }

    /// Replaces blocks `lo..hi` (not empty) with a rope of the same length, and returns the old
    /// rope. The caller has probed both ends.
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
