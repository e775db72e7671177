//! Figure 1 of the Mjölnir paper (INFLOW'15): one leaf with four entries, segments of 10 blocks.
//! Scan 1 counts what is live and segment [20, 29] becomes the candidate; scan 2 finds the entries
//! that refer to it in the leaf; their blocks are copied to segment [80, 89]; the leaf is updated,
//! and nothing refers to [20, 29] any more. Entries that the paper gives only in the drawing are
//! chosen here.

use std::collections::{BTreeMap, BTreeSet};

use mjolnir_map::{Map, Node, Relocations};
use mjolnir_units::{Lba, Pba, TreeId};

const VOLUME: TreeId = TreeId(1);
const SEGMENT: u64 = 10;

/// The live blocks of each segment, from a whole scan.
fn scan(map: &mut Map) -> (BTreeMap<u64, BTreeSet<u64>>, Vec<mjolnir_map::NodeId>) {
    let (mut live, mut leaves) = (BTreeMap::<u64, BTreeSet<u64>>::new(), Vec::new());
    map.begin_mark();
    loop {
        let step = map.mark_step(1);
        for (id, node) in &step.leaves {
            leaves.push(*id);
            for (_, first, blocks) in mapped(node) {
                for at in first..first + blocks {
                    live.entry(at / SEGMENT).or_default().insert(at);
                }
            }
        }
        if step.done {
            map.end_mark();
            return (live, leaves);
        }
    }
}

/// Mapped entries of a leaf: logical address, physical address, blocks.
fn mapped(node: &Node) -> Vec<(u64, u64, u64)> {
    node.extents().filter_map(|(lba, blocks, pba)| Some((lba, pba?.0, blocks))).collect()
}

#[test]
fn figure_1() {
    // (a) The logical space reaches from 0 to 2^48; a leaf has four entries.
    let mut map = Map::new();
    map.create(VOLUME, 1 << 48);
    let entries = [(2000, 2, 5), (2010, 24, 2), (2100, 11, 7), (2200, 28, 2)];
    for (lba, pba, blocks) in entries {
        map.write(VOLUME, Lba(lba), Pba(pba), blocks).unwrap();
    }

    // (b) Scan 1: bitmaps of the segments; the one with the fewest live blocks is the candidate.
    let (live, leaves) = scan(&mut map);
    assert_eq!(leaves.len(), 1, "the whole space has one leaf");
    let bitmap = |segment: u64| live[&segment].iter().copied().collect::<Vec<_>>();
    assert_eq!(bitmap(0), [2, 3, 4, 5, 6]);
    assert_eq!(bitmap(1), [11, 12, 13, 14, 15, 16, 17]);
    assert_eq!(bitmap(2), [24, 25, 28, 29]);
    let candidate = *live.iter().min_by_key(|(_, set)| set.len()).unwrap().0;
    assert_eq!(candidate, 2, "segment [20, 29]");

    // Scan 2: the reverse map of the candidate.
    let leaf = map.leaf(leaves[0]).unwrap().unwrap();
    let in_candidate: Vec<_> =
        mapped(&leaf).into_iter().filter(|(_, pba, _)| pba / SEGMENT == candidate).collect();
    assert_eq!(in_candidate, [(2010, 24, 2), (2200, 28, 2)]);

    // The live blocks are copied to [80, 89], and the map is updated.
    let (mut moves, mut to) = (Relocations::builder(), 80);
    for (_, pba, blocks) in in_candidate {
        moves.add(Pba(pba), blocks, Pba(to));
        to += blocks;
    }
    assert_eq!(map.repoint(leaves[0], &moves.build()).map(|done| done.blocks), Ok(4));

    // (c) The leaf after the cycle.
    let after = map.leaf(leaves[0]).unwrap().unwrap();
    assert_eq!(mapped(&after), [(2000, 2, 5), (2010, 80, 2), (2100, 11, 7), (2200, 82, 2)]);
    let (live, _) = scan(&mut map);
    assert_eq!(live.keys().copied().collect::<Vec<_>>(), [0, 1, 8], "[20, 29] can be trimmed");
}
