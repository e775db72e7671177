//! The sealed erase blocks of each plane, ready for a victim policy.

use mjolnir_policy::victim::{SegmentView, VictimPolicy, VictimView};
use mjolnir_units::ZoneId;

const NONE: u32 = u32::MAX;

/// Sealed erase blocks, and what chooses among those of one plane.
///
/// Greedy, which needs nothing but live counts, is answered from lists by live count in constant
/// time; a test holds it to the policy of that name. All others are asked through their trait.
pub(super) enum Victims {
    Greedy(Buckets),
    Policy(Views),
}

impl Victims {
    pub(super) fn new(policy: Box<dyn VictimPolicy>, blocks: u32, planes: u32, pages: u32) -> Self {
        if policy.name() == "greedy" {
            return Victims::Greedy(Buckets::new(blocks, planes, pages));
        }
        Victims::Policy(Views::new(policy, blocks, planes, pages))
    }

    /// An erase block was sealed with `live` live pages.
    pub(super) fn seal(&mut self, block: u32, live: u32, sequence: u64, youngest: u64) {
        match self {
            Victims::Greedy(buckets) => buckets.insert(block, live),
            Victims::Policy(views) => views.insert(block, live, sequence, youngest),
        }
    }

    /// One page of a sealed erase block died: `live` are left.
    pub(super) fn died(&mut self, block: u32, live: u32) {
        match self {
            Victims::Greedy(buckets) => {
                buckets.remove(block, live + 1);
                buckets.insert(block, live);
            }
            Victims::Policy(views) => views.died(block, live),
        }
    }

    /// A sealed erase block, with `live` live pages, is no candidate any more.
    pub(super) fn remove(&mut self, block: u32, live: u32) {
        match self {
            Victims::Greedy(buckets) => buckets.remove(block, live),
            Victims::Policy(views) => views.remove(block),
        }
    }

    /// The erase block of `plane` to clean next.
    pub(super) fn choose(&mut self, plane: u32, now_sequence: u64) -> Option<u32> {
        match self {
            Victims::Greedy(buckets) => buckets.emptiest(plane),
            Victims::Policy(views) => views.choose(plane, now_sequence),
        }
    }

    /// The emptiest erase block of `plane`, whatever the policy says.
    pub(super) fn emptiest(&mut self, plane: u32) -> Option<u32> {
        match self {
            Victims::Greedy(buckets) => buckets.emptiest(plane),
            Victims::Policy(views) => views.emptiest(plane),
        }
    }

    /// Every sealed erase block with the sequences at which it was sealed and last written by the
    /// host, in an order that [`seal`](Self::seal) turns into this state again.
    pub(super) fn in_order(&self) -> Vec<(u32, u64, u64)> {
        match self {
            Victims::Greedy(buckets) => buckets.in_order(),
            Victims::Policy(views) => {
                let views = views.planes.iter().flatten();
                views
                    .map(|view| (view.zone.0, view.sealed_sequence, view.youngest_sequence))
                    .collect()
            }
        }
    }

    /// The youngest page's sequence of a sealed erase block, where that is kept.
    pub(super) fn youngest(&self, block: u32) -> u64 {
        match self {
            Victims::Greedy(_) => 0,
            Victims::Policy(views) => views.youngest(block),
        }
    }
}

/// Doubly linked lists of erase blocks, one for each plane and live count, oldest entry first.
pub(super) struct Buckets {
    blocks_per_plane: u32,
    levels: u32,
    heads: Vec<u32>,
    tails: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// No block of the plane has fewer live pages than this.
    least: Vec<u32>,
}

impl Buckets {
    fn new(blocks: u32, planes: u32, pages: u32) -> Self {
        let lists = (planes * (pages + 1)) as usize;
        Buckets {
            blocks_per_plane: blocks / planes,
            levels: pages + 1,
            heads: vec![NONE; lists],
            tails: vec![NONE; lists],
            next: vec![NONE; blocks as usize],
            previous: vec![NONE; blocks as usize],
            least: vec![pages + 1; planes as usize],
        }
    }

    fn insert(&mut self, block: u32, live: u32) {
        let plane = block / self.blocks_per_plane;
        let list = (plane * self.levels + live) as usize;
        let tail = self.tails[list];
        self.previous[block as usize] = tail;
        self.next[block as usize] = NONE;
        match tail {
            NONE => self.heads[list] = block,
            tail => self.next[tail as usize] = block,
        }
        self.tails[list] = block;
        let least = &mut self.least[plane as usize];
        *least = (*least).min(live);
    }

    fn remove(&mut self, block: u32, live: u32) {
        let plane = block / self.blocks_per_plane;
        let list = (plane * self.levels + live) as usize;
        let (previous, next) = (self.previous[block as usize], self.next[block as usize]);
        match previous {
            NONE => {
                debug_assert_eq!(self.heads[list], block, "not in the list of its live count");
                self.heads[list] = next;
            }
            previous => self.next[previous as usize] = next,
        }
        match next {
            NONE => self.tails[list] = previous,
            next => self.previous[next as usize] = previous,
        }
    }

    fn in_order(&self) -> Vec<(u32, u64, u64)> {
        let mut blocks = Vec::new();
        for &head in &self.heads {
            let mut block = head;
            while block != NONE {
                blocks.push((block, 0, 0));
                block = self.next[block as usize];
            }
        }
        blocks
    }

    fn emptiest(&mut self, plane: u32) -> Option<u32> {
        let least = &mut self.least[plane as usize];
        while *least < self.levels {
            let head = self.heads[(plane * self.levels + *least) as usize];
            if head != NONE {
                return Some(head);
            }
            *least += 1;
        }
        None
    }
}

/// The view that policies take, kept up to date page by page.
pub(super) struct Views {
    policy: Box<dyn VictimPolicy>,
    blocks_per_plane: u32,
    pages: u32,
    /// Sorted by erase block, so that policies that draw lots find them in order.
    planes: Vec<Vec<SegmentView>>,
}

impl Views {
    fn new(policy: Box<dyn VictimPolicy>, blocks: u32, planes: u32, pages: u32) -> Self {
        Views {
            policy,
            blocks_per_plane: blocks / planes,
            pages,
            planes: vec![Vec::new(); planes as usize],
        }
    }

    /// The plane of an erase block, and its place there: where it is, or where it belongs.
    fn find(&self, block: u32) -> (usize, Result<usize, usize>) {
        let plane = (block / self.blocks_per_plane) as usize;
        (plane, self.planes[plane].binary_search_by_key(&block, |view| view.zone.0))
    }

    fn find_sealed(&self, block: u32) -> (usize, usize) {
        match self.find(block) {
            (plane, Ok(place)) => (plane, place),
            (_, Err(_)) => unreachable!("erase block {block} was never sealed"),
        }
    }

    fn insert(&mut self, block: u32, live: u32, sealed_sequence: u64, youngest_sequence: u64) {
        let view = SegmentView {
            zone: ZoneId(block),
            live_blocks: live.into(),
            used_blocks: self.pages.into(),
            capacity_blocks: self.pages.into(),
            sealed_sequence,
            youngest_sequence,
        };
        match self.find(block) {
            (plane, Err(place)) => self.planes[plane].insert(place, view),
            (_, Ok(_)) => unreachable!("erase block {block} was sealed twice"),
        }
    }

    fn died(&mut self, block: u32, live: u32) {
        let (plane, place) = self.find_sealed(block);
        self.planes[plane][place].live_blocks = live.into();
    }

    fn remove(&mut self, block: u32) {
        let (plane, place) = self.find_sealed(block);
        self.planes[plane].remove(place);
    }

    fn youngest(&self, block: u32) -> u64 {
        let (plane, place) = self.find_sealed(block);
        self.planes[plane][place].youngest_sequence
    }

    fn choose(&mut self, plane: u32, now_sequence: u64) -> Option<u32> {
        let view = VictimView {
            segments: &self.planes[plane as usize],
            now_sequence,
            // Even what is wholly live may be chosen, as the closed forms of random choice assume.
            threshold: 1.0,
            segments_max: 1,
            live_blocks_max: u64::MAX,
        };
        self.policy.choose(&view).first().map(|zone| zone.0)
    }

    fn emptiest(&self, plane: u32) -> Option<u32> {
        let list = &self.planes[plane as usize];
        let order = |view: &&SegmentView| (view.live_blocks, view.sealed_sequence, view.zone);
        list.iter().min_by_key(order).map(|view| view.zone.0)
    }
}
