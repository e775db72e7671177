//! Lines on standard error. Those of a server are written by a thread of their own, so that nobody who is
//! served waits for whoever reads them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Lines that may wait; those that come then are counted.
const WAITING_MAX: usize = 256;
/// How long the end of a program waits for its last lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it looks meanwhile whether there is room for its own.
const TURNS: u32 = 100;

static WRITER: OnceLock<Writer> = OnceLock::new();

/// Prints a line to standard error, after the program's name.
pub fn complain(message: &str) {
    print_aside(format!("mjolnir: {message}"));
}

/// Prints a line to standard error, as it is.
pub fn print_aside(line: String) {
    match WRITER.get() {
        Some(writer) => writer.take(line),
        None => write(&mut io::stderr(), &line),
    }
}

/// From now on a thread writes the lines.
pub fn write_aside() -> io::Result<()> {
    let (writer, lines, left_out) = Writer::new();
    let thread = std::thread::Builder::new().name("complaints".into());
    thread.spawn(move || write_all(&mut io::stderr(), lines, &left_out))?;
    WRITER.get_or_init(|| writer);
    Ok(())
}

/// Waits until what was said is written, unless that takes for ever.
pub fn drain() {
    let Some(writer) = WRITER.get() else { return };
    let (done, written) = sync_channel(1);
    let mut last = Line::Last(done);
    for _ in 0..TURNS {
        match writer.lines.try_send(last) {
            Err(TrySendError::Full(again)) => last = again,
            _ => {
                let _ = written.recv_timeout(PATIENCE);
                return;
            }
        }
        // Nobody answers before it is sent: this passes the time.
        let _ = written.recv_timeout(PATIENCE / TURNS);
    }
}

enum Line {
    Said(String),
    /// All before it are written when this is answered.
    Last(SyncSender<()>),
}

struct Writer {
    lines: SyncSender<Line>,
    left_out: Arc<AtomicU64>,
}

impl Writer {
    fn new() -> (Self, Receiver<Line>, Arc<AtomicU64>) {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let left_out = Arc::new(AtomicU64::new(0));
        (Writer { lines, left_out: left_out.clone() }, waiting, left_out)
    }

    fn take(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Line::Said(line)) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(out: &mut impl Write, lines: Receiver<Line>, left_out: &AtomicU64) {
    for line in lines {
        match line {
            Line::Said(line) => write(out, &line),
            Line::Last(done) => drop(done.send(())),
        }
        let count = left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            write(
                out,
                &format!(
                    "mjolnir: {} left out hereabouts: nobody read that in time",
                    if count == 1 {
                        "1 line was".to_owned()
                    } else {
                        format!("{count} lines were")
                    }
                ),
            );
        }
    }
}

fn write(out: &mut impl Write, line: &str) {
    // Where nobody listens there is nobody to tell.
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_is_counted_and_keeps_nobody() {
        let (writer, lines, left_out) = Writer::new();
        for number in 0..WAITING_MAX + 7 {
            writer.take(format!("mjolnir: {number}"));
        }
        drop(writer);
        let mut out = Vec::new();
        write_all(&mut out, lines, &left_out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), WAITING_MAX + 1, "{text}");
        assert!(text.contains("mjolnir: 7 lines were left out"), "{text}");
        assert!(text.ends_with(&format!("mjolnir: {}\n", WAITING_MAX - 1)), "{text}");
    }
}
