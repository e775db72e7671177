//! What a device file may say.

use mjolnir_policy::placement;

use crate::device::{Device, DeviceError};

/// The fields of a device file, with their tables.
const FIELDS: &[&str] = &[
    "name",
    "description",
    "nand",
    "nand.channels",
    "nand.chips_per_channel",
    "nand.dies_per_chip",
    "nand.planes_per_die",
    "nand.blocks_per_plane",
    "nand.pages_per_block",
    "nand.page_bytes",
    "nand.spare_bytes",
    "nand.pages_per_program",
    "timing",
    "timing.read_ns",
    "timing.program_ns",
    "timing.erase_ns",
    "timing.bus_ns_per_byte",
    "timing.command_ns",
    "timing.erase_suspend",
    "timing.suspend_ns",
    "timing.resume_ns",
    "timing.suspends_max",
    "controller",
    "controller.queue_depth",
    "controller.link_ns_per_byte",
    "controller.link_command_ns",
    "controller.write_buffer_bytes",
    "controller.buffer_ns",
    "controller.read_overhead_ns",
    "ftl",
    "ftl.over_provisioning",
    "ftl.low_watermark",
    "ftl.stripe_pages",
    "ftl.copy_back",
    "ftl.summary_page",
    "ftl.summary_bytes",
    "ftl.victim",
    "ftl.placement",
    "ftl.wear_gap_max",
    "faults",
    "faults.program_failures_ppm",
    "faults.erase_failures_ppm",
    "faults.endurance_erases",
];

/// The name that differs least from `name`; there is at least one.
pub(super) fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> &'static str {
    names.min_by_key(|known| strsim::damerau_levenshtein(known, name)).unwrap_or_default()
}

/// Refuses fields that no device has, naming the nearest.
pub(super) fn fields(source_name: &str, table: &toml::Table) -> Result<(), DeviceError> {
    let unknown = |field: String| DeviceError::UnknownField {
        source_name: source_name.to_owned(),
        nearest: nearest(&field, FIELDS.iter().copied()),
        field,
    };
    for (name, value) in table {
        if !FIELDS.contains(&name.as_str()) {
            return Err(unknown(name.clone()));
        }
        for (inner, _) in value.as_table().into_iter().flatten() {
            let field = format!("{name}.{inner}");
            if !FIELDS.contains(&field.as_str()) {
                return Err(unknown(field));
            }
        }
    }
    Ok(())
}

/// The longest that one operation may take: a quarter of an hour.
const NS_MAX: u64 = 900_000_000_000;

/// The most failures in a million operations.
const FAILURES_PPM_MAX: u32 = 100_000;

impl Device {
    /// Refuses what no drive can be. Whoever changes a device after it was read calls this again.
    pub fn check(&self, source_name: &str) -> Result<(), DeviceError> {
        self.check_hardware(source_name)?;
        self.check_ftl(source_name)
    }

    /// Refuses what no NAND and no controller can be, whatever firmware runs on them.
    pub fn check_hardware(&self, source_name: &str) -> Result<(), DeviceError> {
        self.check_nand(source_name)?;
        self.check_times(source_name)?;
        self.check_limits(source_name)
    }

    fn check_nand(&self, source_name: &str) -> Result<(), DeviceError> {
        let fail = |field, value: u64, why: String| refuse(source_name, field, value, why);
        let nand = &self.nand;
        for (field, value, max) in [
            ("nand.channels", nand.channels, 1_024),
            ("nand.chips_per_channel", nand.chips_per_channel, 1_024),
            ("nand.dies_per_chip", nand.dies_per_chip, 64),
            ("nand.planes_per_die", nand.planes_per_die, 64),
            ("nand.blocks_per_plane", nand.blocks_per_plane, 1 << 20),
            ("nand.pages_per_block", nand.pages_per_block, 1 << 15),
            ("nand.page_bytes", nand.page_bytes, 1 << 20),
            ("nand.pages_per_program", nand.pages_per_program, 1 << 10),
        ] {
            if value == 0 || value > max {
                return Err(fail(field, value.into(), format!("write a number from 1 to {max}")));
            }
        }
        if nand.spare_bytes > nand.page_bytes {
            let why = "out-of-band bytes beyond the page's data; write at most nand.page_bytes";
            return Err(fail("nand.spare_bytes", nand.spare_bytes.into(), why.into()));
        }
        if !nand.page_bytes.is_multiple_of(512) {
            let why = "write a multiple of 512";
            return Err(fail("nand.page_bytes", nand.page_bytes.into(), why.into()));
        }
        let parts =
            [nand.channels, nand.chips_per_channel, nand.dies_per_chip, nand.planes_per_die];
        let planes = parts.iter().map(|&part| u128::from(part)).product::<u128>();
        let blocks = planes * u128::from(nand.blocks_per_plane);
        let pages = blocks * u128::from(nand.pages_per_block);
        if pages >= u128::from(u32::MAX) {
            return Err(DeviceError::Impossible {
                source_name: source_name.to_owned(),
                field: "nand",
                value: format!("{pages} pages"),
                why: format!(
                    "a simulated drive has fewer than {} pages; make it smaller",
                    u32::MAX
                ),
            });
        }
        if !nand.pages_per_block.is_multiple_of(nand.pages_per_program) {
            let why =
                format!("nand.pages_per_block = {} is no multiple of it", nand.pages_per_block);
            return Err(fail("nand.pages_per_program", nand.pages_per_program.into(), why));
        }
        Ok(())
    }

    fn check_times(&self, source_name: &str) -> Result<(), DeviceError> {
        let fail = |field, value: u64, why: String| refuse(source_name, field, value, why);
        let timing = &self.timing;
        for (field, list) in
            [("timing.read_ns", &timing.read_ns), ("timing.program_ns", &timing.program_ns)]
        {
            if list.is_empty() || list.len() > 64 {
                let why = "write a time for each page type, at least one and at most 64";
                return Err(fail(field, list.len() as u64, why.into()));
            }
            for &time in list {
                if time > NS_MAX {
                    return Err(fail(field, time, format!("write at most {NS_MAX}")));
                }
            }
        }
        for (field, time) in [
            ("timing.erase_ns", timing.erase_ns),
            ("timing.command_ns", timing.command_ns),
            ("timing.suspend_ns", timing.suspend_ns),
            ("timing.resume_ns", timing.resume_ns),
            ("controller.link_command_ns", self.controller.link_command_ns),
            ("controller.buffer_ns", self.controller.buffer_ns),
            ("controller.read_overhead_ns", self.controller.read_overhead_ns),
        ] {
            if time > NS_MAX {
                return Err(fail(field, time, format!("write at most {NS_MAX}")));
            }
        }
        for (field, rate) in [
            ("timing.bus_ns_per_byte", timing.bus_ns_per_byte),
            ("controller.link_ns_per_byte", self.controller.link_ns_per_byte),
        ] {
            if !(0.0..=1e6).contains(&rate) {
                let why = "write nanoseconds a byte, from 0 to 1000000";
                return Err(refuse(source_name, field, rate, why.into()));
            }
        }
        Ok(())
    }

    fn check_limits(&self, source_name: &str) -> Result<(), DeviceError> {
        let fail = |field, value: u32, why: String| refuse(source_name, field, value, why);
        let depth = self.controller.queue_depth;
        if depth == 0 || depth > 1 << 20 {
            let why = "write how many requests may be under way, from 1 to 1048576";
            return Err(fail("controller.queue_depth", depth, why.into()));
        }
        for (field, rate) in [
            ("faults.program_failures_ppm", self.faults.program_failures_ppm),
            ("faults.erase_failures_ppm", self.faults.erase_failures_ppm),
        ] {
            if rate > FAILURES_PPM_MAX {
                let why = format!("write at most {FAILURES_PPM_MAX}: more is no drive");
                return Err(fail(field, rate, why));
            }
        }
        Ok(())
    }

    fn check_ftl(&self, source_name: &str) -> Result<(), DeviceError> {
        let refuse_number = |field, value: u64, why: String| refuse(source_name, field, value, why);
        let (nand, ftl, controller) = (&self.nand, &self.ftl, &self.controller);
        for (field, share) in [
            ("ftl.over_provisioning", ftl.over_provisioning),
            ("ftl.low_watermark", ftl.low_watermark),
        ] {
            if !(0.0..1.0).contains(&share) {
                let why = "write a share of the erase blocks, from 0 to below 1";
                return Err(refuse(source_name, field, share, why.into()));
            }
        }
        if ftl.stripe_pages == 0 {
            let why = "write how many pages in a row go to one die, at least 1";
            return Err(refuse_number("ftl.stripe_pages", 0, why.into()));
        }
        if ftl.summary_page && nand.pages_per_block < 2 {
            let why = "with ftl.summary_page an erase block needs at least 2 pages";
            return Err(refuse_number("nand.pages_per_block", 1, why.into()));
        }
        let placement =
            placement::by_name_for(&ftl.placement, &self.placement_shape()).map_err(|error| {
                refuse(source_name, "ftl.placement", &ftl.placement, error.to_string())
            })?;
        // Some are written, one is free while a victim moves, one keeps cleaning from being futile.
        let usable = self.usable_blocks_per_plane();
        let reserved = nand.blocks_per_plane - usable;
        let streams = u32::from(placement.streams());
        let needed = self.low_watermark_blocks() + streams + 1;
        if reserved < needed || usable == 0 {
            let written = match streams {
                1 => "one that is written".to_owned(),
                streams => {
                    format!("{streams} that are written with ftl.placement = {:?}", ftl.placement)
                }
            };
            let why = format!(
                "that leaves {reserved} erase blocks of a plane's {} spare, and {needed} are \
                 needed (the low watermark, {written}, one to win): raise it, lower \
                 ftl.low_watermark, or have more erase blocks",
                nand.blocks_per_plane
            );
            return Err(refuse(source_name, "ftl.over_provisioning", ftl.over_provisioning, why));
        }
        if let Err(error) = mjolnir_policy::victim::by_name(&ftl.victim) {
            return Err(refuse(source_name, "ftl.victim", &ftl.victim, error.to_string()));
        }
        let buffer_pages = controller.write_buffer_bytes / u64::from(nand.page_bytes);
        let units = u64::from(nand.planes()) * u64::from(nand.pages_per_program);
        if nand.pages_per_program > 1 && buffer_pages < 2 * units {
            let why = format!(
                "programs of {} pages at once need a buffer in which they come together: at \
                 least {} bytes",
                nand.pages_per_program,
                2 * units * u64::from(nand.page_bytes)
            );
            let bytes = controller.write_buffer_bytes;
            return Err(refuse_number("controller.write_buffer_bytes", bytes, why));
        }
        if nand.pages_per_program > 1 && ftl.copy_back {
            let why =
                "copy-back moves single pages; with nand.pages_per_program above 1 write false";
            return Err(refuse(source_name, "ftl.copy_back", true, why.into()));
        }
        Ok(())
    }
}

fn refuse(
    source_name: &str,
    field: &'static str,
    value: impl std::fmt::Display,
    why: String,
) -> DeviceError {
    DeviceError::Impossible {
        source_name: source_name.to_owned(),
        field,
        value: value.to_string(),
        why,
    }
}
