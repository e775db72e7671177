//! Device files: the shipped ones load and serve, and what is wrong with one is said by its field,
//! its value, and the nearest known name.

use std::io;

use mjolnir_flash::{Device, DeviceError, Request, RequestKind, Ssd};

fn disksim() -> &'static str {
    include_str!("../devices/disksim-ssd.toml")
}

fn parse(from: &str, to: &str) -> Result<Device, DeviceError> {
    let text = disksim();
    assert!(text.contains(from), "{from:?} is in the file");
    Device::parse("mine.toml", &text.replace(from, to))
}

#[test]
fn every_shipped_device_loads_and_serves_requests() {
    for name in Device::names() {
        let device = Device::shipped(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(device.name, name);
        let mut ssd = Ssd::new(&device, 1).unwrap();
        let mut submit = |now, kind, offset_bytes| {
            let request = Request { kind, offset_bytes, length_bytes: 65_536 };
            ssd.submit(now, request).unwrap().done_ns - now
        };
        for step in 0..20 {
            submit(step * 10_000, RequestKind::Write, step * 65_536);
        }
        let flush = submit(1_000_000, RequestKind::Flush, 0);
        let read = submit(1_000_000_000, RequestKind::Read, 0);
        assert!(read > 20_000 && read < 2_000_000, "{name}: {read} ns");
        assert!(flush < 100_000_000, "{name}: {flush} ns");
    }
}

/// A figure's source stands behind it, or in a comment right above.
#[test]
fn every_figure_of_a_shipped_device_has_its_source() {
    for name in Device::names() {
        let mut above = false;
        // What is said above the first table is for people.
        let figures =
            Device::shipped_text(name).unwrap().lines().skip_while(|l| !l.starts_with('['));
        for line in figures {
            let of_a_list = line.starts_with(' ');
            let sourced = line.contains('#') || above;
            assert!(
                of_a_list || !line.contains(" = ") || sourced,
                "{name}: no source for {line:?}"
            );
            above = line.starts_with('#');
        }
    }
}

#[test]
fn a_path_is_read_where_no_shipped_device_has_that_name() {
    let device = Device::load("own/drive.toml", |path| {
        assert_eq!(path.to_str(), Some("own/drive.toml"));
        Ok(disksim().replace("\"disksim-ssd\"", "\"own\""))
    });
    assert_eq!(device.unwrap().name, "own");
    let denied = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
    let error = Device::load("own/drive.toml", denied).unwrap_err().to_string();
    assert!(error.contains("own/drive.toml") && error.contains("permission denied"), "{error}");
}

#[test]
fn an_unknown_device_is_answered_with_the_nearest() {
    let missing = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let error = Device::load("disksim-sdd", missing).unwrap_err().to_string();
    assert!(error.contains("\"disksim-ssd\" comes nearest"), "{error}");
    assert!(error.contains("zn540"), "{error}");
}

#[test]
fn a_mistyped_field_is_answered_with_the_nearest() {
    for (from, to, nearest) in [
        ("\nchannels =", "\nchanels =", "nand.channels"),
        ("erase_ns", "eraze_ns", "timing.erase_ns"),
        ("[ftl]", "[flt]", "ftl"),
    ] {
        let error = parse(from, to).unwrap_err();
        let DeviceError::UnknownField { nearest: found, .. } = &error else { panic!("{error}") };
        assert_eq!(*found, nearest);
        assert!(error.to_string().contains("mine.toml"), "{error}");
    }
}

#[test]
fn an_impossible_value_is_named_with_its_field() {
    for (from, to, field, says) in [
        ("\nchannels = 8", "\nchannels = 0", "nand.channels = 0", "from 1 to 1024"),
        ("page_bytes = 4096", "page_bytes = 1000", "nand.page_bytes = 1000", "multiple of 512"),
        ("spare_bytes = 128", "spare_bytes = 5000", "nand.spare_bytes = 5000", "at most"),
        ("read_ns = [25_000]", "read_ns = []", "timing.read_ns", "at least one"),
        ("erase_ns = 1_500_000", "erase_ns = 99_999_999_999_999", "timing.erase_ns", "at most"),
        ("ns_per_byte = 25.0", "ns_per_byte = -1.0", "timing.bus_ns_per_byte = -1", "from 0"),
        ("ns_per_byte = 25.0", "ns_per_byte = nan", "timing.bus_ns_per_byte = NaN", "from 0"),
        ("over_provisioning = 0.15", "over_provisioning = 0.05", "ftl.over_provisioning", "102"),
        ("over_provisioning = 0.15", "over_provisioning = 1.5", "ftl.over_provisioning = 1.5", "1"),
        ("over_provisioning = 0.15", "over_provisioning = 0", "ftl.over_provisioning = 0", "spare"),
        ("victim = \"greedy\"", "victim = \"gredy\"", "ftl.victim", "\"greedy\" comes nearest"),
        ("stripe_pages = 1", "stripe_pages = 0", "ftl.stripe_pages = 0", "at least 1"),
        ("queue_depth = 100", "queue_depth = 0", "controller.queue_depth = 0", "from 1"),
        ("chips_per_channel = 1", "chips_per_channel = 1000", "nand = ", "make it smaller"),
        (
            "spare_bytes = 128",
            "spare_bytes = 128\npages_per_program = 3",
            "pages_per_program",
            "64",
        ),
        (
            "spare_bytes = 128",
            "spare_bytes = 128\npages_per_program = 4",
            "controller.write_buffer_bytes = 0",
            "2097152 bytes",
        ),
        (
            "victim = \"greedy\"",
            "victim = \"greedy\"\n[faults]\nprogram_failures_ppm = 200_000",
            "faults.program_failures_ppm = 200000",
            "100000",
        ),
    ] {
        let error = parse(from, to).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains(says), "{to:?}: {error}");
    }
}

#[test]
fn what_is_no_device_file_is_said_with_its_line() {
    for (from, to, says) in [
        ("\nchannels = 8", "\nchannels = \"eight\"", "invalid type"),
        ("\nchannels = 8", "\nchannels = -8", "invalid value"),
        ("\nchannels = 8", "\n", "missing field `channels`"),
        ("[nand]", "[nand", "line 6"),
        ("name = \"disksim-ssd\"", "", "missing field `name`"),
    ] {
        let error = parse(from, to).unwrap_err().to_string();
        assert!(error.contains("mine.toml") && error.contains(says), "{to:?}: {error}");
    }
}
