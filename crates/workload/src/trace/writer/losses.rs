//! Values that a format could not hold.

use serde::Serialize;

/// What was lost or changed on the way into a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Trims left out.
    pub trims: u64,
    /// Flushes left out.
    pub flushes: u64,
    /// Writes of zeroes left out.
    pub zeroes: u64,
    /// Requests whose stream hint was left out.
    pub streams: u64,
    /// Requests whose latency was left out.
    pub latencies: u64,
    /// Requests whose latency was cut to the format's unit.
    pub latencies_rounded: u64,
    /// Requests without a latency, for which the format demands one: written as 0.
    pub latencies_unknown: u64,
    /// Requests whose time was left out.
    pub times_left_out: u64,
    /// Requests whose time was cut to the format's unit.
    pub times_rounded: u64,
    /// Requests that were widened to the format's sectors.
    pub addresses_rounded: u64,
    /// Volumes that got another name.
    pub names_changed: u64,
}

impl Losses {
    /// Whether nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Losses::default()
    }

    /// One line for each thing that was lost.
    pub fn lines(&self) -> Vec<String> {
        [
            (self.trims, "trims left out: the format has none"),
            (self.flushes, "flushes left out: the format has none"),
            (self.zeroes, "writes of zeroes left out: the format has none"),
            (self.streams, "stream hints left out: the format has none"),
            (self.latencies, "latencies left out: the format has none"),
            (self.latencies_rounded, "latencies cut to the format's unit"),
            (self.latencies_unknown, "latencies that are not known written as 0"),
            (self.times_left_out, "times left out: the format has none"),
            (self.times_rounded, "times cut to the format's unit"),
            (self.addresses_rounded, "requests widened to whole sectors of 512 bytes"),
            (self.names_changed, "names of volumes changed: the format's are of another kind"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}
