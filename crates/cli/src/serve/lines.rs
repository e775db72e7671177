//! Lines on standard error that others can bring about: clients, and devices that fail. However often that
//! happens, and however many they are, few lines are written of each kind, and the rest is counted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_units::Instant;

use crate::complaints::complain;
use crate::output;

/// Lines of one kind about one of them that are written at once, and how often one more is.
const OF_EACH: Rate = Rate { at_once: 5, period: Duration::from_secs(10) };
/// The same of all of them together.
const OF_ALL: Rate = Rate { at_once: 20, period: Duration::from_secs(1) };
/// Of how many it is kept, for each kind, which of their lines were left out; those of others are counted
/// together.
const KNOWN_MAX: usize = 64;
/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 500;

/// A sort of line, in words that follow a number of lines: `about clients that were disconnected`.
pub type Kind = &'static str;

/// Writes lines, and leaves out what is too many.
pub struct Lines<R> {
    runtime: R,
    ledger: RefCell<Ledger>,
}

impl<R: Runtime> Lines<R> {
    /// Nothing was said yet.
    pub fn new(runtime: R) -> Self {
        Lines { runtime, ledger: RefCell::default() }
    }

    /// Writes a line of that kind about `whom` (a client's address, a device), or counts it.
    pub fn say(&self, kind: Kind, whom: &str, line: &str) {
        let admitted = self.ledger.borrow_mut().admit(self.runtime.now(), kind, whom);
        if admitted {
            complain(&tidy(line));
        }
    }

    /// Tells how many lines were left out, once one more may be written. To be called about once a second.
    pub fn tend(&self) {
        let told = self.ledger.borrow_mut().tell(self.runtime.now());
        told.iter().for_each(|line| complain(line));
    }

    /// Tells of all lines that were left out and not told of.
    pub fn end(&self) {
        let told = self.ledger.borrow_mut().tell_all();
        told.iter().for_each(|line| complain(line));
    }
}

/// How many lines may be written.
struct Rate {
    at_once: u32,
    /// After which one more may.
    period: Duration,
}

/// What is left of a rate, and what it kept back.
#[derive(Default)]
struct Bucket {
    /// Lines that were written and are not made up for yet.
    written: u32,
    /// As of when.
    since: Instant,
    left_out: u64,
}

impl Bucket {
    fn has_room(&mut self, now: Instant, rate: &Rate) -> bool {
        let periods = now.since(self.since).as_nanos() / rate.period.as_nanos();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        self.written = self.written.saturating_sub(periods);
        self.since = match self.written {
            0 => now,
            _ => self.since + rate.period * periods,
        };
        self.written < rate.at_once
    }
}

/// What was said of a kind.
#[derive(Default)]
struct Account {
    all: Bucket,
    each: BTreeMap<String, Bucket>,
}

#[derive(Default)]
struct Ledger(BTreeMap<Kind, Account>);

impl Ledger {
    /// Whether a line may be written; else it is counted.
    fn admit(&mut self, now: Instant, kind: Kind, whom: &str) -> bool {
        let Account { all, each } = self.0.entry(kind).or_default();
        let room = all.has_room(now, &OF_ALL);
        if !each.contains_key(whom) {
            if each.len() >= KNOWN_MAX {
                each.retain(|_, of| {
                    of.has_room(now, &OF_EACH);
                    of.written > 0 || of.left_out > 0
                });
            }
            if each.len() >= KNOWN_MAX {
                match room {
                    true => all.written += 1,
                    false => all.left_out += 1,
                }
                return room;
            }
            each.insert(whom.to_owned(), Bucket { since: now, ..Bucket::default() });
        }
        let of = each.get_mut(whom).expect("it is there, or was added");
        let admitted = of.has_room(now, &OF_EACH) && room;
        if admitted {
            of.written += 1;
            all.written += 1;
        } else {
            of.left_out += 1;
        }
        admitted
    }

    /// Lines that say how many were left out, of those about whom one more may be written.
    fn tell(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, Account { all, each }) in &mut self.0 {
            for (whom, of) in each.iter_mut() {
                let due = of.left_out > 0 && of.has_room(now, &OF_EACH);
                if due && all.has_room(now, &OF_ALL) {
                    lines.push(left_out(kind, Some(whom), std::mem::take(&mut of.left_out)));
                    (of.written, all.written) = (of.written + 1, all.written + 1);
                }
            }
            if all.left_out > 0 && all.has_room(now, &OF_ALL) {
                lines.push(left_out(kind, None, std::mem::take(&mut all.left_out)));
                all.written += 1;
            }
        }
        lines
    }

    /// The same for all of them, a line for each kind.
    fn tell_all(&mut self) -> Vec<String> {
        let account = |(kind, Account { all, each }): (Kind, Account)| {
            let count = all.left_out + each.values().map(|of| of.left_out).sum::<u64>();
            (count > 0).then(|| left_out(kind, None, count))
        };
        std::mem::take(&mut self.0).into_iter().filter_map(account).collect()
    }
}

fn left_out(kind: Kind, whom: Option<&str>, count: u64) -> String {
    let whom = whom.filter(|whom| !whom.is_empty()).map(|whom| format!(" ({})", tidy(whom)));
    let were = if count == 1 { "was" } else { "were" };
    let lines = output::count(count, "more line");
    format!("{lines} {kind} {were} left out{}", whom.unwrap_or_default())
}

/// One line that is not too long, whatever a client put into it.
fn tidy(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        if out.len() > LINE_BYTES_MAX {
            out.truncate(out.floor_char_boundary(LINE_BYTES_MAX));
            out += "…";
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = "about clients that left";

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn a_flood_is_a_few_lines_and_a_count() {
        let mut ledger = Ledger::default();
        let admitted = (0..30_000).filter(|_| ledger.admit(at(1), KIND, "a")).count();
        assert_eq!(admitted, 5);
        assert_eq!(ledger.tell(at(10)), [""; 0], "it is not time yet");
        let told = "29995 more lines about clients that left were left out (a)";
        assert_eq!(ledger.tell(at(11)), [told]);
        assert_eq!(ledger.tell(at(100)), [""; 0], "once");
        assert!(ledger.admit(at(100), KIND, "a"));
    }

    /// For an hour, by one and by ever new ones.
    #[test]
    fn a_flood_that_goes_on_stays_a_trickle() {
        for many in [false, true] {
            let (mut ledger, mut lines, mut said) = (Ledger::default(), 0, 0);
            for second in 0..3600 {
                for number in 0..100 {
                    let whom = if many { second * 100 + number } else { 0 };
                    said += 1;
                    lines += usize::from(ledger.admit(at(second), KIND, &whom.to_string()));
                }
                lines += ledger.tell(at(second)).len();
            }
            let most = if many { 20 + 3600 } else { 5 + 360 };
            assert!(lines <= most, "{lines} lines of {said}");
            let known = ledger.0[KIND].each.len();
            assert!(known <= KNOWN_MAX, "{known} are known");
        }
    }

    #[test]
    fn others_and_other_kinds_are_heard_meanwhile() {
        let mut ledger = Ledger::default();
        assert_eq!((0..1000).filter(|_| ledger.admit(at(0), KIND, "a")).count(), 5);
        assert!(ledger.admit(at(0), KIND, "b"));
        assert!(ledger.admit(at(0), "about others", "a"));
        assert_eq!(ledger.tell_all(), ["995 more lines about clients that left were left out"]);
    }

    #[test]
    fn what_clients_put_into_a_line_makes_neither_two_nor_a_long_one() {
        assert_eq!(tidy("a\nmjolnir: b\u{1b}[2J"), "a\\nmjolnir: b\\u{1b}[2J");
        let long = tidy(&"ä".repeat(100_000));
        assert!(long.len() <= LINE_BYTES_MAX + 3 && long.ends_with("ä…"), "{}", long.len());
    }
}
