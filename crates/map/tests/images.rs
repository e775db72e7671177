//! Images: what is encoded is decoded again, and no bytes whatever make the map panic or take a
//! wrong node in.

mod world;

use mjolnir_map::{Edge, Map, Node, NodeId, ROOT_BYTES, Root, root_decode, root_encode};
use mjolnir_units::TreeId;
use proptest::prelude::*;
use world::World;

/// A world with a tall tree, all of it on media, and the image and id of some node.
fn on_media() -> World {
    let mut world = World::new(7, (8, 4));
    let tree = world.create(400);
    for i in 0..100 {
        world.write(tree, i * 3, 2);
    }
    world.snapshot(tree);
    world.write(tree, 77, 30);
    world.checkpoint();
    world
}

fn evicted(world: &World) -> Map {
    Map::load(world.saved.roots.clone(), world.saved.pages.clone()).unwrap()
}

#[test]
fn every_node_comes_back_as_it_was() {
    let mut world = on_media();
    let nodes: Vec<(NodeId, std::sync::Arc<Node>)> =
        world.reachable().into_iter().map(|id| (id, world.map.node(id).unwrap())).collect();
    assert!(nodes.iter().any(|(_, node)| node.level() >= 2));
    let mut map = evicted(&world);
    for (id, node) in nodes {
        let address = map.address(id).unwrap();
        map.install(id, &world.media[&address.0]).unwrap();
        assert_eq!(*map.node(id).unwrap(), *node);
    }
    map.verify().unwrap();
}

#[test]
fn an_image_under_another_id_or_level_is_refused() {
    let world = on_media();
    let mut map = evicted(&world);
    let root = map.tree_root(TreeId(1)).unwrap();
    let address = |map: &Map, id| map.address(id).unwrap().0;
    let image = world.media[&address(&map, root.edge.child)].clone();
    let other = map.tree_root(TreeId(2)).unwrap().edge.child;
    assert_ne!(other, root.edge.child);
    let error = map.install(other, &image).unwrap_err().to_string();
    assert!(error.contains("is that of"), "{error}");
    // The parent's word on the level counts.
    map.install(root.edge.child, &image).unwrap();
    let child = map.node(root.edge.child).unwrap().edges()[0].child;
    let mut lone = Map::new();
    lone.create(TreeId(1), 5);
    let node = lone.node(lone.tree_root(TreeId(1)).unwrap().edge.child).unwrap();
    let mut leaf = vec![0; node.image_bytes()];
    node.encode(child, &mut leaf);
    let error = map.install(child, &leaf).unwrap_err().to_string();
    assert!(error.contains("its parent says"), "{error}");
    // An id that no page knows.
    assert!(map.install(NodeId(1 << 30), &leaf).is_err());
    assert!(map.install(NodeId(0), &leaf).is_err());
}

#[test]
fn roots_come_back_and_impossible_ones_are_refused() {
    let edge = Edge { blocks: 1 << 52, child: NodeId(u32::MAX), shared: true };
    let root = Root { edge, level: 15 };
    assert_eq!(root_decode(&root_encode(&root)).unwrap(), root);
    let mut bytes = root_encode(&root);
    bytes[12] = 16;
    assert!(root_decode(&bytes).is_err(), "no tree is that tall");
    assert!(root_decode(&[0; ROOT_BYTES]).is_err(), "no node is called 0");
}

#[test]
fn a_node_table_that_cannot_be_is_refused() {
    let world = on_media();
    let (roots, pages) = (world.saved.roots.clone(), world.saved.pages.clone());
    assert!(Map::load(roots.clone(), Vec::new()).is_err(), "roots without nodes");
    let mut wrong = pages.clone();
    wrong[0][0] = 1;
    assert!(Map::load(roots.clone(), wrong).is_err(), "an address for node 0");
    let twice = [roots.clone(), roots].concat();
    assert!(Map::load(twice, pages).is_err(), "two roots for a tree");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_entries_behind_a_fitting_header_are_refused(
        level in 0u8..20,
        blocks in prop_oneof![0u64..1000, any::<u64>()],
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let world = on_media();
        let mut map = evicted(&world);
        let root = map.tree_root(TreeId(1)).unwrap().edge.child;
        let each = if level == 0 { 8 } else { 12 };
        let body = &body[..body.len() / each * each];
        let mut image = b"MJND".to_vec();
        image.extend([1, level, 0, 0]);
        image.extend(root.0.to_le_bytes());
        image.extend((body.len() as u32 / each as u32).to_le_bytes());
        image.extend(blocks.to_le_bytes());
        image.extend(body);
        prop_assert!(map.install(root, &image).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 16..200)) {
        let world = on_media();
        let mut map = evicted(&world);
        let root = map.tree_root(TreeId(1)).unwrap().edge.child;
        prop_assert!(map.install(root, &bytes).is_err());
        let bytes: [u8; ROOT_BYTES] = bytes[..ROOT_BYTES].try_into().unwrap();
        if let Ok(root) = root_decode(&bytes) {
            prop_assert_eq!(root_encode(&root), bytes);
        }
    }

    #[test]
    fn mutated_images_never_panic(
        which in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let world = on_media();
        let mut map = evicted(&world);
        let ids = map.nodes_at(|_| true);
        let id = ids[which.index(ids.len())];
        let mut image = world.media[&map.address(id).unwrap().0].clone();
        for (at, value) in flips {
            let at = at.index(image.len());
            image[at] = value;
        }
        if let Some(cut) = cut {
            image.truncate(cut.index(image.len()));
        }
        if map.install(id, &image).is_ok() {
            // What was taken in is a node by all that can be known of it.
            let node = map.node(id).unwrap();
            let mut again = vec![0; node.image_bytes()];
            node.encode(id, &mut again);
            prop_assert_eq!(again, image);
        }
    }
}
