//! Any number of engines, devices and workloads run in one order of events, which the seed draws.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use mjolnir_device::filter::DelayOptions;
use mjolnir_device::{MemoryDevice, Runtime};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_sim::stage::{get, put};
use mjolnir_sim::{AfterCut, SimDisk};
use mjolnir_store::Durability;
use mjolnir_units::{BLOCK_SIZE, TreeId};
use mjolnir_vtime::{Chance, Options, Order, Sim, SimRuntime};

const ENGINES: usize = 3;
const CLIENTS: u64 = 4;
/// Blocks of each client; it overwrites them at random.
const BLOCKS: u64 = 400;
const WRITES: u64 = 3000;

/// A store on a disk of its own in a world of its own.
struct Machine {
    engine: Engine<SimDisk, SimRuntime>,
    runtime: SimRuntime,
    volume: TreeId,
}

async fn machine(runtime: SimRuntime, number: usize) -> Machine {
    let delays = DelayOptions {
        append: Duration::from_micros(20),
        read: Duration::from_micros(50),
        // No two disks are equally fast.
        bytes_per_second: Some((100 << 20) * (1 + number as u64)),
        ..DelayOptions::default()
    };
    let memory = MemoryDevice::of_zones(48, 64);
    let disk = SimDisk::new(memory, runtime.clone(), delays, AfterCut::Silence);
    Engine::format(disk.clone(), runtime.clone(), FormatOptions::default()).await.unwrap();
    let engine = Engine::open(disk, runtime.clone(), OpenOptions::default()).await.unwrap();
    let bytes = CLIENTS * BLOCKS * BLOCK_SIZE;
    let volume = engine.create_volume("v", bytes).await.unwrap().id;
    Machine { engine, runtime, volume }
}

/// Overwrites the client's blocks at random, and reads the newest of each.
async fn work(
    machine: Rc<Machine>,
    number: usize,
    client: u64,
    completed: Rc<RefCell<Vec<(usize, u64)>>>,
) {
    let Machine { engine, runtime, volume } = &*machine;
    let mut chance = Chance::new(number as u64 * CLIENTS + client);
    let mut newest = vec![None; BLOCKS as usize];
    for round in 0..WRITES {
        let block = chance.below(BLOCKS);
        let lba = client * BLOCKS + block;
        // Which engine's it is, where it lies, and which write it was.
        let tag = ((number as u64 + 1) << 48) | (lba << 24) | round;
        put(engine, *volume, lba, tag, Durability::Buffered).await.unwrap();
        newest[block as usize] = Some(tag);
        completed.borrow_mut().push((number, runtime.now().0));
        runtime.sleep(Duration::from_micros(10)).await;
    }
    for (block, tag) in newest.into_iter().enumerate() {
        let Some(tag) = tag else { continue };
        let lba = client * BLOCKS + block as u64;
        assert_eq!(get(engine, *volume, lba).await.unwrap(), tag, "engine {number}, block {lba}");
    }
}

/// What happened: which engine completed a write, and when; and how much each reclaimed.
#[derive(Debug, PartialEq)]
struct History {
    completed: Vec<(usize, u64)>,
    moved: Vec<u64>,
    trace: u64,
}

fn history(seed: u64) -> History {
    let options = Options { order: Order::Drawn, poll_limit: 50_000_000, ..Options::default() };
    let sim = Sim::new(seed, options);
    let completed = Rc::new(RefCell::new(Vec::new()));
    let worlds: Vec<SimRuntime> = (0..ENGINES).map(|_| sim.world()).collect();
    let moved = sim.run(async {
        let making = worlds.into_iter().enumerate().map(|(number, world)| machine(world, number));
        let machines: Vec<Rc<Machine>> = join_all(making).await.into_iter().map(Rc::new).collect();
        let running: Rc<Cell<u64>> = Rc::default();
        for (number, machine) in machines.iter().enumerate() {
            for client in 0..CLIENTS {
                let (completed, left) = (completed.clone(), running.clone());
                left.set(left.get() + 1);
                let work = work(machine.clone(), number, client, completed);
                machine.runtime.spawn(async move {
                    work.await;
                    left.set(left.get() - 1);
                });
            }
        }
        while running.get() > 0 {
            machines[0].runtime.sleep(Duration::from_millis(1)).await;
        }
        let moved = machines.iter().map(|machine| machine.engine.stats().moved_bytes).collect();
        for machine in &machines {
            machine.engine.close().await.unwrap();
        }
        moved
    });
    let moved = moved.unwrap();
    History { completed: completed.take(), moved, trace: sim.trace_hash() }
}

#[test]
fn engines_of_one_simulation_repeat_with_its_seed() {
    let first = history(1);
    assert_eq!(first, history(1));
    assert_ne!(first.completed, history(2).completed);
    assert!(first.moved.iter().all(|moved| *moved > 0), "not all reclaim: {:?}", first.moved);
    // They run beside one another, in one order of time.
    let of = |engine: usize| first.completed.iter().filter(move |(number, _)| *number == engine);
    let last_begun = (0..ENGINES).map(|engine| of(engine).next().unwrap().1).max();
    let first_done = (0..ENGINES).map(|engine| of(engine).next_back().unwrap().1).min();
    assert!(last_begun < first_done, "{last_begun:?}, {first_done:?}");
    assert!(first.completed.is_sorted_by_key(|(_, at)| *at));
}
