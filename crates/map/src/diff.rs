//! The differences between two trees, such as a snapshot and its volume. Skips a subtree that both
//! trees have at the same place, without a look at it.

use mjolnir_units::{Lba, Pba, TreeId};

use crate::{Absent, Edge, Map, Root, word};

/// A range whose mapping differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffRange {
    /// First block, the same in both trees.
    pub lba: Lba,
    /// Length in blocks.
    pub blocks: u64,
    /// Its address in the new tree; `None`: a hole there.
    pub pba: Option<Pba>,
}

/// Part of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The differing ranges, in address order.
    pub ranges: Vec<DiffRange>,
    /// Where to continue; `None`: the new tree ends here.
    pub next: Option<Lba>,
}

/// An edge and the address at which its node begins.
#[derive(Clone, Copy)]
struct Place {
    edge: Edge,
    start: u64,
    level: u8,
}

impl Place {
    fn end(&self) -> u64 {
        self.start + self.edge.blocks
    }
}

/// A position in a tree: unopened subtrees, the nearest on top.
struct Cursor<'a> {
    map: &'a Map,
    ahead: Vec<Place>,
}

impl<'a> Cursor<'a> {
    fn new(map: &'a Map, root: Root) -> Self {
        Cursor { map, ahead: vec![Place { edge: root.edge, start: 0, level: root.level }] }
    }

    /// The unopened subtree that holds block `at`; `None` past the end.
    fn at(&mut self, at: u64) -> Option<Place> {
        while self.ahead.last().is_some_and(|place| place.end() <= at) {
            self.ahead.pop();
        }
        self.ahead.last().copied()
    }

    /// Opens the subtree on top, which holds block `at`.
    fn open(&mut self, at: u64) -> Result<(), Absent> {
        let Some(place) = self.ahead.last().copied() else { return Ok(()) };
        let node = self.map.table.get(place.edge.child)?;
        self.ahead.pop();
        let (first, first_start) = node.child_at(at - place.start);
        let mut end = place.end();
        for edge in node.edges()[first..].iter().rev() {
            end -= edge.blocks;
            self.ahead.push(Place { edge: *edge, start: end, level: place.level - 1 });
        }
        debug_assert_eq!(end, place.start + first_start);
        Ok(())
    }

    /// The mapping of block `at` and how many blocks from there on continue it. Past the end, a
    /// hole without end.
    fn extent(&mut self, at: u64) -> Result<(u64, Option<Pba>), Absent> {
        let Some(place) = self.at(at) else { return Ok((u64::MAX, None)) };
        debug_assert_eq!(place.level, 0);
        let node = self.map.table.get(place.edge.child)?;
        let offset = at - place.start;
        let (index, start) = node.entries().seek(node.blocks(), offset);
        let entry = node.entries().get(index);
        let pba = word::pba(entry).map(|first| first.plus(offset - start));
        Ok((start + word::blocks(entry) - offset, pba))
    }
}

impl Map {
    /// Up to `limit` (at least one) ranges from `from` on that `new` and `old` map differently.
    /// Blocks past the end of `old` count as holes there. May stop early at an absent node, even
    /// with no range; returns the error only if it made no progress.
    pub fn diff(&self, old: TreeId, new: TreeId, from: Lba, limit: usize) -> Result<Diff, Absent> {
        let (mut a, mut b) = (Cursor::new(self, self.root(old)), Cursor::new(self, self.root(new)));
        let length = self.root(new).edge.blocks;
        let mut diff = Diff { ranges: Vec::new(), next: None };
        let mut at = from.0;
        while at < length {
            match step(&mut a, &mut b, at, length) {
                Ok(Step { to, pba: None }) => at = to,
                Ok(Step { to, pba: Some(pba) }) => {
                    if !diff.push(at, to - at, pba, limit.max(1)) {
                        break;
                    }
                    at = to;
                }
                Err(absent) if at == from.0 => return Err(absent),
                Err(_) => break,
            }
        }
        diff.next = (at < length).then_some(Lba(at));
        Ok(diff)
    }
}

impl Diff {
    /// Adds a range; false if there was no room.
    fn push(&mut self, at: u64, blocks: u64, pba: Option<Pba>, limit: usize) -> bool {
        if let Some(last) = self.ranges.last_mut() {
            let follows = match (last.pba, pba) {
                (Some(before), Some(pba)) => before.plus(last.blocks) == pba,
                (None, None) => true,
                _ => false,
            };
            if follows && last.lba.plus(last.blocks) == Lba(at) {
                last.blocks += blocks;
                return true;
            }
        }
        if self.ranges.len() == limit {
            return false;
        }
        self.ranges.push(DiffRange { lba: Lba(at), blocks, pba });
        true
    }
}

/// Blocks up to `to` are equal in both trees, or have this mapping in the new one.
struct Step {
    to: u64,
    pba: Option<Option<Pba>>,
}

fn step(a: &mut Cursor<'_>, b: &mut Cursor<'_>, at: u64, length: u64) -> Result<Step, Absent> {
    loop {
        let (x, y) = (a.at(at), b.at(at));
        let same = |p: Place| (p.edge.child, p.start);
        if let (Some(x), Some(y)) = (x, y)
            && same(x) == same(y)
        {
            return Ok(Step { to: y.end(), pba: None });
        }
        let level = |p: Option<Place>| p.map_or(0, |p| p.level);
        if level(x) == 0 && level(y) == 0 {
            break;
        }
        if level(x) >= level(y) { a.open(at)? } else { b.open(at)? }
    }
    let (old, new) = (a.extent(at)?, b.extent(at)?);
    let to = length.min(at + old.0.min(new.0));
    Ok(Step { to, pba: (old.1 != new.1).then_some(new.1) })
}
