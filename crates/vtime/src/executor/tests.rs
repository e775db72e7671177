//! The executor: time jumps, order repeats, and what a power cut ends stays ended.

use futures_lite::future::{or, zip};
use mjolnir_device::Runtime;

use super::*;

fn sim(seed: u64, shuffle: bool) -> Sim {
    let order = if shuffle { Order::Drawn } else { Order::Woken };
    Sim::new(seed, Options { order, ..Options::default() })
}

/// A simulation in which only what is priced takes time.
fn priced(step_ns: f64, cores: usize) -> (Sim, SimRuntime) {
    let sim = Sim::new(1, Options::untraced(Jobs::BySteps { step_ns, cores }));
    let world = sim.world();
    world.set_timed(true);
    (sim, world)
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
    let jobs = Jobs::Alike { cost: Duration::from_secs(3), own_job: false };
    let options = Options { jobs, ..Options::default() };
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

#[test]
fn where_polls_cost_nothing_the_clock_moves_from_timer_to_timer() {
    let (sim, world) = priced(0.0, 1);
    let seen: Rc<RefCell<Vec<(u64, u32)>>> = Rc::default();
    for (name, ns) in [(1, 30), (2, 10), (3, 30)] {
        let (seen, own) = (seen.clone(), world.clone());
        world.spawn(async move {
            own.sleep(Duration::from_nanos(ns)).await;
            seen.borrow_mut().push((own.now_ns(), name));
        });
    }
    assert_eq!(sim.run(world.sleep_until(Instant(40))), Ok(()));
    assert_eq!(*seen.borrow(), [(10, 2), (30, 1), (30, 3)]);
    assert_eq!((sim.now(), sim.events()), (Instant(40), 0));
}

#[test]
fn what_nobody_sleeps_for_any_more_is_forgotten() {
    let (sim, world) = priced(0.0, 1);
    let own = world.clone();
    let done = sim.run(async move {
        for _ in 0..100 {
            or(own.sleep(Duration::from_secs(1)), own.give_way()).await;
        }
        assert!(own.core.timers.borrow().is_empty());
        own.sleep_until(Instant(7)).await;
        own.now_ns()
    });
    assert_eq!(done, Ok(7));
}

#[test]
fn jobs_beyond_the_cores_wait_for_one() {
    for (cores, wanted_ns) in [(1, 3_000), (2, 2_000), (3, 1_000)] {
        let (sim, world) = priced(10.0, cores);
        let job = || world.parallel_steps(|_| ((), 100));
        let jobs = async {
            zip(job(), zip(job(), job())).await;
            world.now_ns()
        };
        assert_eq!(sim.run(jobs), Ok(wanted_ns), "{cores} cores");
        assert_eq!(world.cpu_time(), Duration::from_nanos(3_000));
    }
}

#[test]
fn worlds_have_processors_of_their_own() {
    let (sim, world) = priced(10.0, 1);
    let other = sim.world_with(Jobs::BySteps { step_ns: 20.0, cores: 1 });
    let jobs = async {
        let job = |_| ((), 100);
        zip(world.parallel_steps(job), other.parallel_steps(job)).await;
    };
    assert_eq!(sim.run(jobs), Ok(()));
    assert_eq!(sim.now(), Instant(2_000), "neither waited for the other");
    assert_eq!((world.cpu_time().as_nanos(), other.cpu_time().as_nanos()), (1_000, 2_000));
}

#[test]
fn a_priced_job_is_under_way_before_it_is_asked_for() {
    let (sim, world) = priced(10.0, 1);
    let job = async {
        let job = world.parallel_steps(|_| ((), 100));
        world.sleep_until(Instant(700)).await;
        job.await;
        world.now_ns()
    };
    assert_eq!(sim.run(job), Ok(1_000));
}

#[test]
fn a_run_ends_when_it_is_told_to_or_gets_nowhere() {
    let spin = async |world: &SimRuntime| {
        loop {
            world.give_way().await;
        }
    };
    let (sim, world) = priced(0.0, 1);
    let told: Result<(), Stuck> = sim.run_watched(spin(&world), &mut || false);
    assert_eq!(told, Err(Stuck::Interrupted));
    let jobs = Jobs::BySteps { step_ns: 0.0, cores: 1 };
    let options = Options { idle_poll_limit: 1 << 20, ..Options::untraced(jobs) };
    let sim = Sim::new(1, options);
    let world = sim.world();
    assert_eq!(sim.run::<()>(spin(&world)), Err(Stuck::Idle(1 << 20)));
    let busy = async {
        for _ in 0..3 << 20 {
            world.note_progress();
            world.give_way().await;
        }
    };
    assert_eq!(sim.run(busy), Ok(()));
}

/// A task that ended may have been woken once more, by others or by itself: that neither runs the
/// task that got its place, nor lets that one wait.
#[test]
fn a_place_is_used_again_and_late_wakes_are_for_nobody() {
    let (sim, world) = priced(0.0, 1);
    let stale: Rc<RefCell<Option<Waker>>> = Rc::default();
    let polls = Rc::new(Cell::new(0));
    let first = {
        let stale = stale.clone();
        std::future::poll_fn(move |context| {
            // It ends while it stands in the queue.
            context.waker().wake_by_ref();
            stale.replace(Some(context.waker().clone()));
            Poll::Ready(())
        })
    };
    world.spawn(first);
    let scene = async {
        world.give_way().await;
        let polls = polls.clone();
        world.spawn(std::future::poll_fn(move |_| {
            polls.set(polls.get() + 1);
            Poll::<()>::Pending
        }));
        for _ in 0..3 {
            world.give_way().await;
            stale.borrow().as_ref().expect("the first was polled").wake_by_ref();
        }
    };
    sim.run(scene).unwrap();
    assert_eq!(polls.get(), 1);
}

#[test]
fn a_world_that_is_held_stands_still_and_goes_on_where_it_was() {
    let (sim, world) = priced(0.0, 1);
    let other = sim.world();
    let seen: Rc<RefCell<Vec<&str>>> = Rc::default();
    for (world, name, ns) in [(&world, "one", 10), (&world, "two", 10), (&other, "other", 20)] {
        let (own, seen) = (world.clone(), seen.clone());
        world.spawn(async move {
            own.sleep(Duration::from_nanos(ns)).await;
            seen.borrow_mut().push(name);
            own.give_way().await;
            seen.borrow_mut().push(name);
        });
    }
    sim.run(world.give_way()).unwrap();
    sim.hold(world.world());
    sim.run(world.sleep(Duration::from_nanos(30))).unwrap();
    assert_eq!(*seen.borrow(), ["other", "other"]);
    sim.release(world.world());
    sim.run(world.sleep(Duration::from_nanos(1))).unwrap();
    assert_eq!(seen.borrow()[2..], ["one", "two", "one", "two"]);
}
