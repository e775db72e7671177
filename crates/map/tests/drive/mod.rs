//! One input as a map: a root, then images of nodes, each after its length (2 bytes). An image is
//! filed under the id that it gives itself. Also what the fuzzer drives (`fuzz/targets/map.rs`).

use mjolnir_map::{Map, NodeId, ROOT_BYTES, TABLE_PAGE, root_decode, root_encode};
use mjolnir_units::{Lba, Pba, TreeId};

/// Ids without an image: a map that is partly on media has such.
const ABSENT: std::ops::Range<u32> = 500..512;

/// The images in an input, with their ids.
pub fn images(mut bytes: &[u8]) -> Vec<(NodeId, &[u8])> {
    let mut images = Vec::new();
    while bytes.len() >= 2 {
        let length = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let (image, rest) = bytes[2..].split_at(length.min(bytes.len() - 2));
        let id = image.get(8..12).map_or(1, |id| u32::from_le_bytes(id.try_into().unwrap()));
        images.push((NodeId(id), image));
        bytes = rest;
    }
    images
}

/// An input of a root and images.
pub fn input(root: &[u8; ROOT_BYTES], images: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = root.to_vec();
    for image in images {
        bytes.extend((image.len() as u16).to_le_bytes());
        bytes.extend(image);
    }
    bytes
}

/// Loads what the input says, and if the map finds it in order, uses it. Returns whether it was.
pub fn drive(bytes: &[u8]) -> bool {
    let Some((root, rest)) = bytes.split_first_chunk::<ROOT_BYTES>() else { return false };
    let Ok(decoded) = root_decode(root) else { return false };
    assert_eq!(root_encode(&decoded), *root);
    let images = images(rest);
    let mut page = [0; TABLE_PAGE];
    let ids = images.iter().map(|(id, _)| id.0).chain(ABSENT);
    for id in ids.filter(|id| (1..TABLE_PAGE as u32).contains(id)) {
        page[id as usize] = u64::from(id);
    }
    let tree = TreeId(1);
    let Ok(mut map) = Map::load(vec![(tree, decoded)], vec![page]) else { return false };
    let mut whole = true;
    for (id, image) in images {
        if map.address(id).is_none() || map.install(id, image).is_err() {
            whole = false;
            continue;
        }
        if let Ok(node) = map.node(id) {
            let mut again = vec![0; node.image_bytes()];
            node.encode(id, &mut again);
            // The first image of an id counts.
            whole &= image.starts_with(&again);
        }
    }
    if map.verify().is_err() {
        return false;
    }
    exercise(&mut map, tree);
    whole
}

/// Every operation may lack a node. None may panic, and the map stays in order.
fn exercise(map: &mut Map, tree: TreeId) {
    let blocks = map.blocks(tree).expect("it was loaded");
    let mut runs = Vec::new();
    let mut at = 0;
    while at < blocks {
        let Ok(found) = map.runs(tree, Lba(at), 64) else { break };
        let length: u64 = found.iter().map(|run| run.blocks).sum();
        assert!(length > 0 && at + length <= blocks);
        at += length;
        runs.extend(found);
        if runs.len() > 4096 {
            break;
        }
    }
    map.snapshot(tree, TreeId(2));
    for lba in [0, blocks / 2, blocks.saturating_sub(1)] {
        if lba < blocks {
            let _ = map.write(tree, Lba(lba), Pba(7), 1);
        }
    }
    if blocks > 2 {
        let _ = map.trim(tree, Lba(blocks / 3), blocks / 3);
    }
    map.drop_tree(TreeId(2));
    map.free_some(1000);
    if let Err(problem) = map.verify() {
        panic!("a map in order is not after use: {problem}");
    }
}
