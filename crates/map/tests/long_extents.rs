//! Extents around and beyond the 65,536 blocks that one word holds: they are cut, joined and kept in
//! normal form (`verify` checks that no two words could be one).

mod world;

use mjolnir_units::{Lba, Pba, TreeId};
use world::{World, for_seeds};

#[test]
fn long_extents_equal_the_model_and_stay_in_normal_form() {
    for_seeds(0..30, |seed| {
        let mut world = World::new(seed, (8, 4));
        let blocks = 500_000;
        let tree = world.create(blocks);
        world.write(tree, 0, blocks);
        for _ in 0..150 {
            let length = match world.dice.below(3) {
                0 => 65_530 + world.dice.below(12),
                1 => 1 + world.dice.below(5),
                _ => 1 + world.dice.below(150_000),
            };
            let lba = match world.dice.below(3) {
                0 => world.dice.below(7) * 65_536 + world.dice.below(3),
                _ => world.dice.below(blocks),
            };
            let lba = lba.min(blocks - length);
            let to = world.dice.below(blocks - length);
            match world.dice.below(6) {
                0 => world.write(tree, lba, length),
                1 => world.trim(tree, lba, length),
                2 => world.clone_range(tree, lba, tree, to, length),
                3 => world.move_range(tree, lba, tree, to, length),
                // In pieces that one word could hold, next to each other, in any order.
                _ => {
                    let (first, piece) = (world.next_pba, length / 3);
                    world.next_pba += length;
                    for part in [2, 0, 1] {
                        let skip = part * piece;
                        let count = if part == 2 { length - skip } else { piece };
                        let (lba, pba) = (lba + skip, first + skip);
                        world.map.write(TreeId(tree), Lba(lba), Pba(pba), count).unwrap();
                        world.verify();
                        let cells = world.model.get_mut(&tree).unwrap();
                        (0..count).for_each(|i| cells[(lba + i) as usize] = Some(pba + i));
                    }
                }
            }
            world.verify();
        }
        world.compare();
    });
}
