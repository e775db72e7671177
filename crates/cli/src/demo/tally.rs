//! What all threads of the demo tell each other: that it is time to stop, what was wrong, and how
//! long clients waited.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many findings are kept in words; all are counted.
const FINDINGS_MAX: usize = 10;

/// Shared by all threads.
pub struct Tally {
    began: Instant,
    /// The user wants to stop: everything ends as soon as it can.
    pub interrupted: Arc<AtomicBool>,
    /// The load ends; what is under way is finished.
    pub load_over: AtomicBool,
    /// Blocks that were read back and compared.
    pub blocks_verified: AtomicU64,
    wrong: AtomicU64,
    findings: Mutex<Vec<String>>,
    last_write_ns: AtomicU64,
    pause_ns_max: AtomicU64,
}

impl Tally {
    /// Nothing happened yet. `interrupted` is set from outside.
    pub fn new(interrupted: Arc<AtomicBool>) -> Self {
        Tally {
            began: Instant::now(),
            interrupted,
            load_over: AtomicBool::new(false),
            blocks_verified: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            findings: Mutex::default(),
            last_write_ns: AtomicU64::new(u64::MAX),
            pause_ns_max: AtomicU64::new(0),
        }
    }

    /// Whether the user wants to stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    /// Whether writers go on.
    pub fn load_goes_on(&self) -> bool {
        !self.load_over.load(Relaxed) && !self.is_interrupted()
    }

    /// A client's write was answered just now.
    pub fn write_answered(&self) {
        let now = self.began.elapsed().as_nanos() as u64;
        // Threads may pass each other here by microseconds; pauses that matter are longer.
        let before = self.last_write_ns.swap(now, Relaxed);
        self.pause_ns_max.fetch_max(now.saturating_sub(before), Relaxed);
    }

    /// The longest time between two answers to writes, of any clients.
    pub fn longest_pause(&self) -> Duration {
        Duration::from_nanos(self.pause_ns_max.load(Relaxed))
    }

    /// Takes the verdict on a block that was read as part of `what`.
    pub fn judged(&self, what: &str, verdict: Result<(), String>) {
        self.blocks_verified.fetch_add(1, Relaxed);
        if let Err(why) = verdict {
            self.wrong.fetch_add(1, Relaxed);
            let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
            if findings.len() < FINDINGS_MAX {
                findings.push(format!("{what}: {why}"));
            }
        }
    }

    /// How many blocks were wrong, and the first of them in words.
    pub fn wrong(&self) -> (u64, Vec<String>) {
        let findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        (self.wrong.load(Relaxed), findings.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_blocks_are_counted_and_the_first_ones_named() {
        let tally = Tally::new(Arc::default());
        tally.judged("volume", Ok(()));
        for block in 0..20 {
            tally.judged("volume", Err(format!("block {block}")));
        }
        let (wrong, findings) = tally.wrong();
        assert_eq!((wrong, findings.len()), (20, FINDINGS_MAX));
        assert_eq!(findings[0], "volume: block 0");
        assert_eq!(tally.blocks_verified.load(Relaxed), 21);
    }

    #[test]
    fn the_time_before_the_first_write_is_no_pause() {
        let tally = Tally::new(Arc::default());
        tally.write_answered();
        assert_eq!(tally.longest_pause(), Duration::ZERO);
        std::thread::sleep(Duration::from_millis(2));
        tally.write_answered();
        assert!(tally.longest_pause() >= Duration::from_millis(2));
    }
}
