//! How the requests of a workload are made: when their time has come, one after the other, or with
//! no time in between.

use std::cell::RefCell;
use std::rc::Rc;

use mjolnir_units::BLOCK_SIZE;
use mjolnir_workload::Request;

use super::client::{Clients, Host};
use super::source::Source;

/// Blocks that clients write between two turns of reclaim where nothing takes time.
pub(super) const BLOCKS_A_TURN: u64 = 64;

/// Requests in a row that may take no time.
pub(super) const IN_NO_TIME_MAX: u64 = 10_000_000;

/// Why a run ends in which more did.
pub(super) fn takes_no_time(at_ns: u64) -> String {
    format!(
        "{IN_NO_TIME_MAX} requests in a row took no time, at {at_ns} ns: the run would never end (do \
         jobs read or trim what was never written? give the device a controller.buffer_ns or \
         link_command_ns, a job a thinktime, or fill the drive)"
    )
}

/// Makes the workload's requests until one of the limits, or the workload's end; `note` is called
/// for each, or for some where nothing takes time. Returns what there is to say of a trace.
pub(super) async fn ask(
    host: &Rc<Host>,
    source: Source,
    note: impl Fn() + Clone + 'static,
) -> Result<Vec<String>, String> {
    let timed = host.runtime.is_timed();
    let clients: Rc<Clients> = Rc::default();
    match source {
        Source::Jobs(workload) if timed => {
            for number in 0..workload.jobs().len() {
                let job = &workload.jobs()[number];
                let generator = Rc::new(RefCell::new(workload.generator(number)));
                let own = host.clone();
                if job.is_timed() {
                    let note = note.clone();
                    let requests =
                        std::iter::from_fn(move || generator.borrow_mut().next().map(Ok));
                    let arrivals = arrivals(own, requests, clients.clone(), note);
                    clients.spawn(&host.runtime, arrivals);
                    continue;
                }
                let ends = host.limits.counts_requests();
                let end_ns = job
                    .runtime_ns()
                    .map_or(u64::MAX, |runtime| host.limits.from_ns() + job.start_ns() + runtime);
                for _ in 0..job.iodepth() {
                    let follow = Follow {
                        start_ns: host.limits.from_ns() + job.start_ns(),
                        end_ns,
                        think_ns: job.think_ns(),
                        ends,
                    };
                    let generator = generator.clone();
                    let next = move || generator.borrow_mut().next().map(Ok);
                    let client = one_after_the_other(own.clone(), next, follow, note.clone());
                    clients.spawn(&host.runtime, client);
                }
            }
            clients.all().await;
            Ok(Vec::new())
        }
        Source::Jobs(workload) => {
            let requests = workload
                .interleaved()
                .map_err(|error| format!("workload.synthetic: {error}"))?
                .map(|(_, request)| Ok(request));
            in_no_time(host, requests, note).await;
            Ok(Vec::new())
        }
        Source::Trace(trace) if timed => {
            let trace = Rc::new(RefCell::new(trace));
            let next = {
                let trace = trace.clone();
                move || trace.borrow_mut().next()
            };
            let depth = trace.borrow().queue_depth;
            match depth {
                None => {
                    let requests = std::iter::from_fn(next);
                    arrivals(host.clone(), requests, clients.clone(), note).await;
                }
                Some(depth) => {
                    for _ in 0..depth {
                        let follow =
                            Follow { start_ns: 0, end_ns: u64::MAX, think_ns: 0, ends: true };
                        let client =
                            one_after_the_other(host.clone(), next.clone(), follow, note.clone());
                        clients.spawn(&host.runtime, client);
                    }
                }
            }
            clients.all().await;
            let notes = trace.borrow().notes();
            Ok(notes)
        }
        Source::Trace(mut trace) => {
            in_no_time(host, trace.by_ref(), note).await;
            Ok(trace.notes())
        }
    }
}

/// Makes each request when its time has come, whatever became of those before.
async fn arrivals(
    host: Rc<Host>,
    requests: impl Iterator<Item = Result<Request, String>>,
    clients: Rc<Clients>,
    note: impl Fn() + Clone,
) {
    let begun_ns = host.runtime.now_ns();
    for request in requests {
        let request = match request {
            Ok(request) => request,
            Err(why) => return host.fail(why),
        };
        let arrival_ns = begun_ns.saturating_add(request.time.0);
        host.front.until(arrival_ns.min(host.limits.until_ns())).await;
        if !host.goes_on() {
            return;
        }
        host.take(&request);
        note();
        let own = host.clone();
        let serve = async move { own.serve(request, arrival_ns).await };
        clients.spawn(&host.runtime, serve);
    }
}

/// When a client's requests begin and end, and how long it thinks in between.
struct Follow {
    start_ns: u64,
    end_ns: u64,
    think_ns: u64,
    /// Whether the requests end by themselves.
    ends: bool,
}

/// One place of a queue: a request, its completion, the next request.
async fn one_after_the_other(
    host: Rc<Host>,
    next: impl Fn() -> Option<Result<Request, String>>,
    follow: Follow,
    note: impl Fn(),
) {
    host.front.until(follow.start_ns).await;
    let mut in_no_time = 0;
    while host.goes_on() && host.runtime.now_ns() < follow.end_ns {
        let request = match next() {
            None => return,
            Some(Ok(request)) => request,
            Some(Err(why)) => return host.fail(why),
        };
        host.take(&request);
        note();
        let begun_ns = host.runtime.now_ns();
        host.serve(request, begun_ns).await;
        if follow.think_ns > 0 {
            host.front.until(host.runtime.now_ns() + follow.think_ns).await;
        }
        in_no_time = if host.runtime.now_ns() > begun_ns { 0 } else { in_no_time + 1 };
        if in_no_time > IN_NO_TIME_MAX && !follow.ends {
            return host.fail(takes_no_time(begun_ns));
        }
        if in_no_time > 0 && in_no_time.is_multiple_of(BLOCKS_A_TURN) {
            host.runtime.give_way().await;
        }
    }
}

/// One request after the other, with turns for reclaim in between.
pub(super) async fn in_no_time(
    host: &Rc<Host>,
    requests: impl Iterator<Item = Result<Request, String>>,
    note: impl Fn(),
) {
    let mut turn = 0;
    for request in requests {
        let request = match request {
            Ok(request) => request,
            Err(why) => return host.fail(why),
        };
        if !host.goes_on() {
            return;
        }
        host.take(&request);
        turn += request.length.div_ceil(BLOCK_SIZE);
        host.serve(request, host.runtime.now_ns()).await;
        if turn >= BLOCKS_A_TURN {
            turn = 0;
            note();
            host.runtime.give_way().await;
        }
    }
}
