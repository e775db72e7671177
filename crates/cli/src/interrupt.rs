//! SIGINT and SIGTERM for work that ends in order when it is asked to: the first signal asks, and a later one
//! ends the process.

#![allow(clippy::disallowed_methods)] // The outside world: whoever waits has a clock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A signal that comes so soon after the first is the same one: `timeout` signals a program, and then the
/// group that it is in.
pub const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// A flag that the first signal sets. A later one ends the process with the status that `status` gives for it.
pub fn requested(status: fn(i32) -> i32) -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let flag = asked.clone();
    let listen = move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            flag.store(true, Ordering::SeqCst);
            if first.get_or_insert_with(Instant::now).elapsed() >= SAME_SIGNAL {
                signal_hook::low_level::exit(status(signal));
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
    Ok(asked)
}
