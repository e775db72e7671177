//! Erase blocks that stand in for those that failed: of each plane some are kept back, as in a drive
//! that one can buy.

use std::collections::BTreeMap;

/// See the module. An erase block is replaced by one of its own plane, so that what lies on it is
/// copied without a bus, and what was on different dies stays there.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandIns {
    blocks_per_plane: u32,
    /// Of each plane, how many of those kept back were taken.
    taken: Vec<u32>,
    /// The first of those kept back, counted within a plane.
    first: u32,
    /// Which erase block serves in place of each that was replaced.
    serving: BTreeMap<u32, u32>,
}

impl StandIns {
    /// The last `spare` of the erase blocks of each plane.
    pub fn new(planes: u32, blocks_per_plane: u32, spare: u32) -> Self {
        StandIns {
            blocks_per_plane,
            taken: vec![0; planes as usize],
            first: blocks_per_plane - spare,
            serving: BTreeMap::new(),
        }
    }

    /// The erase block that serves in place of `block`: itself, if it was not replaced.
    #[inline]
    pub fn serving(&self, block: u32) -> u32 {
        if self.serving.is_empty() {
            return block; // Nothing ever failed: the usual case.
        }
        self.serving.get(&block).copied().unwrap_or(block)
    }

    /// Takes the next erase block of the plane in place of `block`, and whatever stood in for it
    /// before. None if none is left.
    pub fn replace(&mut self, block: u32) -> Option<u32> {
        let plane = block / self.blocks_per_plane;
        let taken = &mut self.taken[plane as usize];
        let next = self.first + *taken;
        if next == self.blocks_per_plane {
            return None;
        }
        *taken += 1;
        let stand_in = plane * self.blocks_per_plane + next;
        self.serving.insert(block, stand_in);
        Some(stand_in)
    }

    /// What to save: how many of each plane were taken, and who serves for whom.
    pub fn saved(&self) -> (&[u32], &BTreeMap<u32, u32>) {
        (&self.taken, &self.serving)
    }

    /// Takes what was saved; whether it could have been.
    pub fn restore(&mut self, taken: Vec<u32>, serving: BTreeMap<u32, u32>) -> bool {
        let spare = self.blocks_per_plane - self.first;
        let of_plane = |block: u32| block / self.blocks_per_plane;
        let is_kept_back = |block: u32| block % self.blocks_per_plane >= self.first;
        let fits = taken.len() == self.taken.len()
            && taken.iter().all(|taken| *taken <= spare)
            && serving.iter().all(|(block, other)| {
                of_plane(*block) == of_plane(*other)
                    && !is_kept_back(*block)
                    && is_kept_back(*other)
            });
        if fits {
            (self.taken, self.serving) = (taken, serving);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plane_gives_its_own_and_no_more_than_it_has() {
        let mut stand_ins = StandIns::new(2, 10, 2);
        assert_eq!((stand_ins.serving(3), stand_ins.serving(13)), (3, 13));
        assert_eq!(stand_ins.replace(3), Some(8));
        assert_eq!(stand_ins.replace(3), Some(9), "the stand-in failed, too");
        assert_eq!((stand_ins.replace(5), stand_ins.replace(15)), (None, Some(18)));
        assert_eq!([3, 5, 15].map(|block| stand_ins.serving(block)), [9, 5, 18]);
        let (taken, serving) = stand_ins.saved();
        let mut other = StandIns::new(2, 10, 2);
        assert!(!other.restore(vec![3, 0], serving.clone()), "more than there are");
        assert!(!other.restore(taken.to_vec(), BTreeMap::from([(3, 18)])), "another plane's");
        assert!(!other.restore(vec![1], serving.clone()), "another device's");
        assert!(other.restore(taken.to_vec(), serving.clone()));
        assert_eq!((other.serving(3), other.replace(12)), (9, Some(19)));
    }
}
