//! A map beside a naive model of it (a table of block to address for each tree), with media that
//! live in memory. Every operation is done to both; an absent node is fetched and the operation
//! repeated, as an engine does.
#![allow(dead_code)] // Each test uses a part.

use std::collections::{BTreeMap, BTreeSet};

use mjolnir_map::{
    Absent, BaseBefore, Form, Frozen, Map, Node, NodeAddress, NodeId, Run, TABLE_PAGE,
    with_one_base,
};
use mjolnir_units::{Lba, Pba, TreeId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// A block's address; none: a hole.
pub type Cell = Option<u64>;
/// What every tree should hold.
pub type Model = BTreeMap<u32, Vec<Cell>>;

/// Random numbers from a seed.
pub struct Dice(Pcg64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(Pcg64::seed_from_u64(seed))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end.max(1)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Runs `test` with each seed and says which one failed.
pub fn for_seeds(seeds: std::ops::Range<u64>, test: impl Fn(u64)) {
    let seeds = match std::env::var("MAP_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("MAP_SEED is a number");
            seed..seed + 1
        }
        Err(_) => seeds,
    };
    for seed in seeds {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(why) = failed {
            eprintln!("seed {seed} failed; repeat it with MAP_SEED={seed}");
            std::panic::resume_unwind(why);
        }
    }
}

/// What a crash leaves: the last completed checkpoint.
#[derive(Clone, Default)]
pub struct Saved {
    pub roots: Vec<(TreeId, mjolnir_map::Root)>,
    pub pages: Vec<[u64; TABLE_PAGE]>,
    pub model: Model,
}

pub struct World {
    pub map: Map,
    pub model: Model,
    pub dice: Dice,
    pub next_pba: u64,
    pub next_tree: u32,
    pub node_sizes: (usize, usize),
    /// Images by address.
    pub media: BTreeMap<u64, Vec<u8>>,
    /// By the addresses of images, what these have in common with others, if it lies before them.
    pub bases: BTreeMap<u64, Vec<u8>>,
    /// How many bytes were written before an image that refers to others, or that others refer to.
    pub places: BTreeMap<u64, u64>,
    pub written: u64,
    pub next_address: u64,
    /// Free once the next checkpoint is complete.
    pub superseded: Vec<NodeAddress>,
    pub saved: Saved,
    pub fetched: usize,
}

impl World {
    pub fn new(seed: u64, node_sizes: (usize, usize)) -> World {
        World {
            map: Map::new().with_node_sizes(node_sizes.0, node_sizes.1),
            model: Model::new(),
            dice: Dice::new(seed),
            next_pba: 0,
            next_tree: 1,
            node_sizes,
            media: BTreeMap::new(),
            bases: BTreeMap::new(),
            places: BTreeMap::new(),
            written: 0,
            next_address: 1,
            superseded: Vec::new(),
            saved: Saved::default(),
            fetched: 0,
        }
    }

    /// Fetches an absent node from the media.
    pub fn fetch(&mut self, id: NodeId) {
        let address = self.map.address(id).unwrap_or_else(|| panic!("{id} has no address"));
        let image = self.media.get(&address.0).unwrap_or_else(|| panic!("{id} was overwritten"));
        let base = self.bases.get(&address.0).map_or(&[][..], |base| base);
        self.map.install_at(id, image, self.places.get(&address.0).copied(), base).unwrap();
        self.fetched += 1;
    }

    /// Repeats an operation until it finds all nodes.
    pub fn retry<T>(&mut self, mut operation: impl FnMut(&mut Map) -> Result<T, Absent>) -> T {
        loop {
            match operation(&mut self.map) {
                Ok(done) => return done,
                Err(Absent(id)) => self.fetch(id),
            }
        }
    }

    pub fn create(&mut self, blocks: u64) -> u32 {
        let tree = self.next_tree;
        self.next_tree += 1;
        self.map.create(TreeId(tree), blocks);
        self.model.insert(tree, vec![None; blocks as usize]);
        tree
    }

    /// Maps a range to fresh addresses.
    pub fn write(&mut self, tree: u32, lba: u64, blocks: u64) {
        // Often not contiguous with the write before.
        self.next_pba += self.dice.below(3);
        let pba = self.next_pba;
        self.next_pba += blocks;
        self.retry(|map| map.write(TreeId(tree), Lba(lba), Pba(pba), blocks));
        let cells = self.model.get_mut(&tree).unwrap();
        for i in 0..blocks {
            cells[(lba + i) as usize] = Some(pba + i);
        }
    }

    pub fn trim(&mut self, tree: u32, lba: u64, blocks: u64) {
        self.retry(|map| map.trim(TreeId(tree), Lba(lba), blocks));
        self.model.get_mut(&tree).unwrap()[lba as usize..(lba + blocks) as usize].fill(None);
    }

    pub fn clone_range(&mut self, from: u32, from_lba: u64, to: u32, to_lba: u64, blocks: u64) {
        let (a, b) = ((TreeId(from), Lba(from_lba)), (TreeId(to), Lba(to_lba)));
        self.retry(|map| map.clone_range(a.0, a.1, b.0, b.1, blocks));
        let cells = self.model[&from][from_lba as usize..(from_lba + blocks) as usize].to_vec();
        self.model.get_mut(&to).unwrap()[to_lba as usize..(to_lba + blocks) as usize]
            .copy_from_slice(&cells);
    }

    pub fn move_range(&mut self, from: u32, from_lba: u64, to: u32, to_lba: u64, blocks: u64) {
        let (a, b) = ((TreeId(from), Lba(from_lba)), (TreeId(to), Lba(to_lba)));
        self.retry(|map| map.move_range(a.0, a.1, b.0, b.1, blocks));
        let source = from_lba as usize..(from_lba + blocks) as usize;
        let cells = self.model[&from][source.clone()].to_vec();
        self.model.get_mut(&from).unwrap()[source].fill(None);
        self.model.get_mut(&to).unwrap()[to_lba as usize..(to_lba + blocks) as usize]
            .copy_from_slice(&cells);
    }

    pub fn snapshot(&mut self, from: u32) -> u32 {
        let tree = self.next_tree;
        self.next_tree += 1;
        self.map.snapshot(TreeId(from), TreeId(tree));
        self.model.insert(tree, self.model[&from].clone());
        tree
    }

    pub fn drop_tree(&mut self, tree: u32) {
        self.map.drop_tree(TreeId(tree));
        self.model.remove(&tree);
    }

    pub fn replace(&mut self, tree: u32, with: u32) {
        self.map.replace(TreeId(tree), TreeId(with));
        self.model.insert(tree, self.model[&with].clone());
    }

    pub fn resize(&mut self, tree: u32, blocks: u64) {
        self.retry(|map| map.resize(TreeId(tree), blocks));
        self.model.get_mut(&tree).unwrap().resize(blocks as usize, None);
    }

    pub fn trees(&self) -> Vec<u32> {
        self.model.keys().copied().collect()
    }

    pub fn length(&self, tree: u32) -> u64 {
        self.model[&tree].len() as u64
    }

    /// A range within `length` blocks: short or long, now and then at an end.
    pub fn range(&mut self, length: u64) -> (u64, u64) {
        let most = match self.dice.below(4) {
            0 => 3,
            1 => 40,
            2 => length / 4,
            _ => length,
        };
        let blocks = self.dice.below(most.min(length) + 1);
        let lba = match self.dice.below(8) {
            0 => 0,
            1 => length - blocks,
            _ => self.dice.below(length - blocks + 1),
        };
        (lba, blocks)
    }

    /// One random operation on random trees; at most `trees_max` trees come to be.
    pub fn step(&mut self, trees_max: usize) {
        let trees = self.trees();
        let (tree, other) = (self.dice.pick(&trees), self.dice.pick(&trees));
        let length = self.length(tree);
        let (lba, blocks) = self.range(length);
        match self.dice.below(20) {
            0..=7 => {
                let blocks = if self.dice.chance(80) { blocks.min(1 + lba % 5) } else { blocks };
                self.write(tree, lba, blocks);
            }
            8..=10 => self.trim(tree, lba, blocks),
            op @ 11..=16 => {
                let blocks = blocks.min(self.length(other));
                let to_lba = match self.dice.below(3) {
                    // Near, so that ranges of one tree overlap.
                    0 => (lba + self.dice.below(9)).saturating_sub(4),
                    _ => self.dice.below(self.length(other) - blocks + 1),
                };
                let to_lba = to_lba.min(self.length(other) - blocks);
                if op < 15 {
                    self.clone_range(tree, lba, other, to_lba, blocks);
                } else {
                    self.move_range(tree, lba, other, to_lba, blocks);
                }
            }
            17 if trees.len() < trees_max => {
                self.snapshot(tree);
            }
            17 if trees.len() > 1 => self.drop_tree(tree),
            18 => {
                self.map.free_some(3);
                if self.dice.chance(30) {
                    self.replace(tree, other);
                }
            }
            19 if self.dice.chance(50) => {
                let blocks = (length + self.dice.below(60)).saturating_sub(30);
                self.resize(tree, blocks);
            }
            _ => {}
        }
    }

    /// The map's content of a tree.
    pub fn content(&mut self, tree: u32) -> Vec<Cell> {
        let blocks = self.map.blocks(TreeId(tree)).unwrap();
        let runs = self.retry(|map| {
            let mut out = Vec::new();
            map.lookup(TreeId(tree), Lba(0), blocks, &mut out).map(|()| out)
        });
        cells(&runs)
    }

    /// Every tree holds what the model says.
    pub fn compare(&mut self) {
        let known: Vec<u32> = self.map.trees().map(|(tree, _)| tree.0).collect();
        assert_eq!(known, self.trees());
        for tree in known {
            self.compare_ways(TreeId(tree));
            let (found, expected) = (self.content(tree), &self.model[&tree]);
            if let Some(at) = (0..expected.len()).find(|at| found.get(*at) != Some(&expected[*at]))
            {
                panic!("tree {tree} block {at}: {:?}, not {:?}", found.get(at), expected[at]);
            }
            assert_eq!(found.len(), expected.len(), "length of tree {tree}");
            for lo in (0..found.len()).step_by(7) {
                let hi = (lo + 1 + lo % 13).min(found.len());
                let (lba, blocks) = (Lba(lo as u64), (hi - lo) as u64);
                let is_hole = self.retry(|map| map.is_hole(TreeId(tree), lba, blocks));
                let holes = found[lo..hi].iter().all(Option::is_none);
                assert_eq!(is_hole, holes, "tree {tree} blocks {lo}..{hi}");
            }
        }
    }

    /// The ways to a tree's blocks, as much of the map as is in memory now: one begins where another
    /// ends, what is said to be in memory can be looked up, and what is said to be absent is missed.
    fn compare_ways(&self, tree: TreeId) {
        let length = self.model[&tree.0].len() as u64;
        let (mut at, mut runs, mut last) = (0, Vec::new(), None);
        while at < length {
            let way = self.map.way_to(tree, Lba(at));
            assert_eq!(way.blocks.start, at, "{way:?} in tree {tree:?}");
            assert!(at < way.blocks.end && way.blocks.end <= length, "{way:?} in tree {tree:?}");
            let middle = Lba(way.blocks.start.midpoint(way.blocks.end));
            assert_eq!(self.map.way_to(tree, middle), way, "{middle:?} in tree {tree:?}");
            match way.absent {
                None => self.map.lookup(tree, Lba(at), way.blocks.end - at, &mut runs).unwrap(),
                Some(id) => {
                    let missed = self.map.lookup(tree, middle, 1, &mut runs).unwrap_err();
                    assert_eq!(missed.0, id, "{way:?} in tree {tree:?}");
                    assert_ne!(last, Some(id), "{way:?} in tree {tree:?}");
                }
            }
            (at, last) = (way.blocks.end, way.absent);
        }
    }

    pub fn verify(&self) {
        self.map.verify().unwrap();
    }

    /// Writes the frozen nodes of a checkpoint that are at `from` or later in it, up to `count`.
    pub fn place(&mut self, frozen: &Frozen, from: usize, count: usize) {
        let nodes = frozen.nodes.get(from..).unwrap_or_default();
        let mut rest = &nodes[..count.min(nodes.len())];
        while let Some((id, first)) = rest.first() {
            let group = with_one_base(rest);
            if group == 1 {
                let (id, image) = image(*id, first);
                self.place_image(id, image);
                rest = &rest[1..];
                continue;
            }
            // One after another, as on media.
            let mut written = Vec::new();
            for (at, (id, node)) in rest[..group].iter().enumerate() {
                let from = written.len();
                let back = (from - first.base_at().min(from)) as u32;
                let form = if at == 0 { Form::WithBase } else { Form::AfterBase { back } };
                written.resize(from + node.image_bytes_as(form), 0xAA);
                node.encode_as(*id, form, &mut written[from..]);
                let image = written[from..].to_vec();
                if let Some(base) = BaseBefore::of(&image) {
                    let begin = from - base.back as usize;
                    let base = written[begin..begin + base.bytes].to_vec();
                    self.bases.insert(self.next_address, base);
                }
                self.places.insert(self.next_address, self.written + from as u64);
                self.place_image(*id, image);
            }
            self.written += written.len() as u64;
            rest = &rest[group..];
        }
    }

    /// Writes one node of a checkpoint.
    pub fn place_image(&mut self, id: NodeId, image: Vec<u8>) {
        let address = self.next_address;
        self.next_address += 1;
        self.media.insert(address, image);
        self.superseded.extend(self.map.placed(id, NodeAddress(address)));
    }

    /// Completes a checkpoint whose nodes are placed: writes the table's dirty pages, and only now
    /// lets go of what the checkpoint before needed.
    pub fn complete(&mut self, frozen: Frozen, model: Model) {
        self.superseded.extend(&frozen.released);
        self.saved.roots = frozen.roots;
        self.saved.model = model;
        let pages = self.map.dirty_pages();
        self.saved.pages.resize(self.map.pages() as usize, [0; TABLE_PAGE]);
        for page in pages {
            self.saved.pages[page as usize] = self.map.table_page(page);
        }
        for address in self.superseded.drain(..) {
            self.media.remove(&address.0).expect("an address is given back once");
        }
        let mut addresses = BTreeSet::new();
        for address in self.saved.pages.iter().flatten().filter(|address| **address != 0) {
            assert!(self.media.contains_key(address), "{address} is needed and was given back");
            assert!(addresses.insert(*address), "{address} is there twice");
        }
        assert_eq!(addresses.len(), self.media.len(), "every image is needed");
    }

    pub fn checkpoint(&mut self) {
        let frozen = self.map.freeze();
        let model = self.model.clone();
        self.place(&frozen, 0, usize::MAX);
        self.complete(frozen, model);
    }

    /// Loses all memory; what remains is the last complete checkpoint.
    pub fn crash(&mut self) {
        let saved = self.saved.clone();
        let map = Map::load(saved.roots, saved.pages.clone()).unwrap();
        self.map = map.with_node_sizes(self.node_sizes.0, self.node_sizes.1);
        self.model = saved.model;
        self.superseded.clear();
        let needed: BTreeSet<u64> = saved.pages.iter().flatten().copied().collect();
        self.media.retain(|address, _| needed.contains(address));
    }

    /// A whole mark with nothing in between; returns how many nodes it freed.
    pub fn mark(&mut self) -> usize {
        self.map.begin_mark();
        loop {
            let step = self.map.mark_step(10);
            if step.done {
                self.map.end_mark();
                let before = self.map.usage().nodes;
                while self.map.sweep(7) {}
                return before - self.map.usage().nodes;
            }
            step.absent.iter().for_each(|id| self.fetch(*id));
        }
    }

    /// Ids of all nodes that trees reach.
    pub fn reachable(&mut self) -> BTreeSet<NodeId> {
        let frozen_roots = self.roots();
        let mut open: Vec<NodeId> = frozen_roots.iter().map(|root| root.edge.child).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = open.pop() {
            if found.insert(id) {
                let node = self.retry(|map| map.node(id));
                open.extend(node.edges().iter().map(|edge| edge.child));
            }
        }
        found
    }

    pub fn roots(&self) -> Vec<mjolnir_map::Root> {
        self.trees().iter().map(|tree| self.map.tree_root(TreeId(*tree)).unwrap()).collect()
    }
}

/// A node's image.
pub fn image(id: NodeId, node: &Node) -> (NodeId, Vec<u8>) {
    let mut image = vec![0xAA; node.image_bytes()];
    node.encode(id, &mut image);
    (id, image)
}

/// Runs, block by block.
pub fn cells(runs: &[Run]) -> Vec<Cell> {
    let blocks = |run: &Run| {
        let pba = run.pba;
        (0..run.blocks).map(move |i| pba.map(|at| at.0 + i)).collect::<Vec<_>>()
    };
    runs.iter().flat_map(blocks).collect()
}
