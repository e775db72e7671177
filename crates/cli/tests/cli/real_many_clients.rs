//! Many clients at once, on volumes and snapshots, while snapshots come and go.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::real_support::chance::Chance;
use crate::real_support::store::TestStore;
use crate::real_support::tools;

const SEED: u64 = 6;
const CLIENTS: u64 = 64;
/// What each has to itself.
const SHARE: u64 = 128 << 10;
const ROUNDS: u64 = 12;
const COPIES: u64 = 4;

/// Writes its share over and over, at any alignment, and reads it back.
fn work(store: &TestStore, index: u64) -> Vec<u8> {
    let mut client = store.client("v");
    assert_eq!(client.size, CLIENTS * SHARE);
    let mut chance = Chance::new(SEED ^ (index << 32));
    let mut model = vec![0; SHARE as usize];
    for round in 0..ROUNDS {
        for _ in 0..8 {
            let at = chance.below(SHARE - 1);
            let count = 1 + chance.below((SHARE - at).min(30_000));
            let bytes = chance.bytes(count as usize);
            client.write(index * SHARE + at, &bytes);
            model[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
        if round % 4 == index % 4 {
            client.flush();
        }
        let found = client.read(index * SHARE, SHARE as u32);
        assert!(found == model, "seed {SEED}: client {index} reads others' bytes, round {round}");
    }
    model
}

#[test]
fn sixty_four_clients_and_copies_of_snapshots_at_once() {
    if !tools::present("sixty_four_clients_and_copies_of_snapshots_at_once", &["nbdcopy", "cmp"]) {
        return;
    }
    println!("seed {SEED}");
    let store = TestStore::new("128M", "8M");
    let original = store.path("original");
    let mut chance = Chance::new(SEED);
    std::fs::write(&original, chance.bytes(8 << 20)).unwrap();
    store.ok("volume create s.mj old --size 8M");
    let server = store.serve();
    tools::succeed(tools::command("nbdcopy").arg(&original).arg(store.uri("old")));
    store.ok("snapshot create s.mj old@s");

    let is_over = AtomicBool::new(false);
    let model: Vec<u8> = std::thread::scope(|scope| {
        let (store, original) = (&store, &original);
        let clients: Vec<_> =
            (0..CLIENTS).map(|index| scope.spawn(move || work(store, index))).collect();
        let copies: Vec<_> = (0..COPIES)
            .map(|index| {
                scope.spawn(move || {
                    let copy = store.path(&format!("copy{index}"));
                    store.ok(&format!("volume create s.mj new{index} --size 8M"));
                    let to = store.uri(&format!("new{index}"));
                    tools::ok("nbdcopy", &[store.uri("old@s"), to.clone()]);
                    tools::succeed(tools::command("nbdcopy").arg(to).arg(&copy));
                    tools::succeed(tools::command("cmp").args([original, &copy]));
                })
            })
            .collect();
        let is_over = &is_over;
        let snapshots = scope.spawn(move || {
            let mut taken = 0;
            while taken < 3 || !is_over.load(Ordering::SeqCst) {
                store.ok("snapshot create s.mj v@passing");
                store.ok("snapshot delete s.mj v@passing");
                taken += 1;
            }
        });
        let models = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        copies.into_iter().for_each(|copy| copy.join().unwrap());
        is_over.store(true, Ordering::SeqCst);
        snapshots.join().unwrap();
        models
    });
    store.client("v").flush();
    server.kill();
    let server = store.serve();
    assert!(store.client("v").read(0, (CLIENTS * SHARE) as u32) == model, "seed {SEED}");
    server.stop();
    store.check();
}
