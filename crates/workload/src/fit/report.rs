//! The changes made by fitting.

use mjolnir_units::ByteSize;
use serde::Serialize;

use super::{AddressRule, FitSpec, Target, TimeRule, VolumeRule};

/// What was done to fit a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FitReport {
    /// The rules.
    pub spec: FitSpec,
    /// The device.
    pub target: Target,
    /// How long the trace's address space is, its volumes brought together, in bytes.
    pub trace_bytes: u64,
    /// Passes begun.
    pub passes: u32,
    /// Requests of the trace, in all passes.
    pub read: u64,
    /// Requests for the device.
    pub written: u64,
    /// Requests dropped because they are of other volumes.
    pub of_other_volumes: u64,
    /// Requests widened to whole blocks.
    pub widened: u64,
    /// Bytes that they gained.
    pub widened_bytes: u64,
    /// Trims narrowed to whole blocks.
    pub trims_narrowed: u64,
    /// Trims dropped because they hold no whole block.
    pub trims_dropped: u64,
    /// Requests that went past the device's end and were folded.
    pub folded: u64,
    /// Requests longer than the device, cut to its length.
    pub cut: u64,
    /// Requests moved in proportion.
    pub scaled: u64,
    /// Requests that became several.
    pub split: u64,
}

impl FitReport {
    pub(super) fn new(spec: FitSpec, target: Target, trace_bytes: u64) -> Self {
        FitReport {
            spec,
            target,
            trace_bytes,
            passes: 1,
            read: 0,
            written: 0,
            of_other_volumes: 0,
            widened: 0,
            widened_bytes: 0,
            trims_narrowed: 0,
            trims_dropped: 0,
            folded: 0,
            cut: 0,
            scaled: 0,
            split: 0,
        }
    }

    /// What was done, one sentence a line.
    pub fn lines(&self) -> Vec<String> {
        let (trace, device) = (ByteSize(self.trace_bytes), ByteSize(self.target.bytes));
        let mut lines = vec![
            match self.spec.volumes {
                VolumeRule::Concatenate => "volumes lie one after the other".to_owned(),
                VolumeRule::Overlay => "volumes lie over each other".to_owned(),
                VolumeRule::Only(volume) => format!("only volume number {} is taken", volume.0),
            },
            match self.spec.addresses {
                AddressRule::Exact => format!("addresses are the trace's ({trace} on {device})"),
                AddressRule::Fold => format!("addresses of {trace} are taken modulo {device}"),
                AddressRule::Scale => {
                    format!("addresses of {trace} are scaled to {device} in regions of 1 MiB")
                }
            },
            match self.spec.time {
                TimeRule::AsRecorded => "times are the trace's".to_owned(),
                TimeRule::Stretch(percent) => format!("times are stretched to {percent} percent"),
                TimeRule::QueueDepth(depth) => {
                    format!("times are dropped: {depth} requests are kept under way")
                }
            },
            format!("{} requests became {}, in {} passes", self.read, self.written, self.passes),
        ];
        let widened = format!(
            "requests widened to whole blocks of {} bytes, by {} in all",
            self.target.block_bytes,
            ByteSize(self.widened_bytes)
        );
        for (count, what) in [
            (self.of_other_volumes, "requests to other volumes dropped"),
            (self.widened, widened.as_str()),
            (self.trims_narrowed, "trims narrowed to whole blocks"),
            (self.trims_dropped, "trims without a whole block dropped"),
            (self.folded, "requests past the device's end folded"),
            (self.cut, "requests longer than the device cut to its length"),
            (self.scaled, "requests moved in proportion"),
            (self.split, "requests split"),
        ] {
            if count > 0 {
                lines.push(format!("{count} {what}"));
            }
        }
        lines
    }
}
