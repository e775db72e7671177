//! The executor: time jumps, order repeats, and what a power cut ends stays ended.

use super::*;

fn sim(seed: u64, shuffle: bool) -> Sim {
    Sim::new(seed, Options { shuffle, ..Options::default() })
}

/// Ten tasks sleep and write down who woke when; returns the order and the trace.
fn history(seed: u64, shuffle: bool) -> (Vec<u64>, u64) {
    let sim = sim(seed, shuffle);
    let world = sim.world();
    let order = Rc::new(RefCell::new(Vec::new()));
    for task in 0..10 {
        let (world, order) = (world.clone(), order.clone());
        world.clone().spawn(async move {
            for _ in 0..5 {
                order.borrow_mut().push(task);
                world.sleep(Duration::from_micros(world.random() % 3)).await;
            }
        });
    }
    sim.run(world.sleep(Duration::from_secs(1))).unwrap();
    let order = order.borrow().clone();
    (order, sim.trace_hash())
}

#[test]
fn the_same_seed_repeats_and_another_differs() {
    for shuffle in [false, true] {
        assert_eq!(history(1, shuffle), history(1, shuffle));
        assert_ne!(history(1, shuffle).0, history(2, shuffle).0);
    }
    assert_ne!(history(1, false).0, history(1, true).0);
}

#[test]
fn minutes_of_sleep_take_no_time_and_equal_instants_keep_their_order() {
    let sim = sim(0, false);
    let world = sim.world();
    let woken = Rc::new(RefCell::new(Vec::new()));
    for task in 0..3 {
        let (timer, woken) = (world.sleep(Duration::from_secs(300)), woken.clone());
        world.spawn(async move {
            timer.await;
            woken.borrow_mut().push(task);
        });
    }
    sim.run(world.sleep(Duration::from_secs(301))).unwrap();
    assert_eq!(*woken.borrow(), [0, 1, 2]);
    assert!(sim.now().0 >= 301_000_000_000 && sim.now().0 < 301_000_100_000);
}

#[test]
fn a_job_is_under_way_before_it_is_asked_for() {
    let options = Options { job_cost: Duration::from_secs(3), ..Options::default() };
    let sim = Sim::new(0, options);
    let world = sim.world();
    let own = world.clone();
    let both = async move {
        let job = own.parallel(|_| ());
        own.sleep(Duration::from_secs(2)).await;
        job.await;
    };
    sim.run(both).unwrap();
    assert!((3_000_000_000..3_000_100_000).contains(&sim.now().0), "{:?}", sim.now());
}

#[test]
fn a_main_that_waits_for_nothing_is_a_deadlock_and_one_that_spins_takes_too_long() {
    let sim = sim(0, false);
    assert!(matches!(sim.run(std::future::pending::<()>()), Err(Stuck::Deadlock(_))));
    let options = Options { time_limit: Duration::from_millis(1), ..Options::default() };
    let sim = Sim::new(0, options);
    let world = sim.world();
    let spin = async {
        loop {
            world.give_way().await;
        }
    };
    assert!(matches!(sim.run::<()>(spin), Err(Stuck::TooLong(_))));
}

/// A killed world's tasks are dropped, wake nobody and cannot be joined by new ones; the clock
/// and the other worlds go on.
#[test]
fn a_power_cut_ends_a_world_where_it_stands() {
    let sim = sim(0, false);
    let (doomed, other) = (sim.world(), sim.world());
    let steps = Rc::new(RefCell::new((0, 0)));
    for (world, first) in [(doomed.clone(), true), (other.clone(), false)] {
        let steps = steps.clone();
        world.clone().spawn(async move {
            loop {
                world.sleep(Duration::from_millis(1)).await;
                let mut steps = steps.borrow_mut();
                *(if first { &mut steps.0 } else { &mut steps.1 }) += 1;
            }
        });
    }
    sim.run_until(Instant(10_500_000), std::future::pending::<()>()).unwrap();
    sim.kill(doomed.world());
    let held = Rc::downgrade(&steps);
    doomed.spawn(async move { drop(steps) });
    sim.run_until(Instant(20_500_000), std::future::pending::<()>()).unwrap();
    let steps = held.upgrade().expect("the other world's task lives").borrow().to_owned();
    assert_eq!((steps.0, steps.1 > 15), (10, true), "{steps:?}");
}

#[test]
fn work_given_away_takes_time_and_is_done() {
    let sim = sim(0, false);
    let world = sim.world();
    assert_eq!(sim.run(world.parallel(|_| 6 * 7)).unwrap().0, 42);
    assert!(sim.now().0 >= 20_000 && world.cpu_time() > Duration::ZERO);
}
