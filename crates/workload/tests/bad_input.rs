//! Bad records stop a reader with place, value and advice, or are skipped and counted; never
//! anything else. No bytes make it panic.

mod support;

use mjolnir_workload::Request;
use mjolnir_workload::trace::{BadRecord, Fault, Format, Place, ReadOptions, TimeBack};
use support::drive::drive;
use support::{Chance, read, volumes, write};

const GOOD: &str = "419,W,8192,16384,1577808000000146";

fn with_bad_line(line: &str) -> String {
    format!("{GOOD}\n{line}\n{GOOD}\n")
}

#[test]
fn a_bad_record_is_refused_with_place_and_value_or_skipped_and_counted() {
    for (line, fault, value) in [
        ("419,W,8192,16384", Fault::Columns, "4 columns"),
        ("419,W,8192,16384,1577808000000146,0", Fault::Columns, "6 columns"),
        ("419,W,-8192,16384,1577808000000146", Fault::Negative, "-8192"),
        ("419,W,x,16384,1577808000000146", Fault::NotANumber, "\"x\""),
        ("419,W,,16384,1577808000000146", Fault::NotANumber, "empty"),
        ("419,X,8192,16384,1577808000000146", Fault::Operation, "\"X\""),
        ("419,W,8192,0,1577808000000146", Fault::NoLength, "no bytes"),
        ("419,W,8192,16384,1577808000000145", Fault::TimeBack, "1000 ns"),
        (
            "419,W,99999999999999999999,16384,1577808000000146",
            Fault::TooLarge,
            "99999999999999999999",
        ),
        ("419,W,9223372036854775807,16384,1577808000000146", Fault::TooLarge, "1 EiB"),
        ("419,W,18446744073709551615,16384,1577808000000146", Fault::TooLarge, "1 EiB"),
        ("419,W,8192,1073741825,1577808000000146", Fault::TooLarge, "1 GiB"),
        ("419,W,8192,16384,18446744073709551615", Fault::TooLarge, "centuries"),
        ("nonsense", Fault::Columns, "nonsense"),
        ("\u{0}\u{1}", Fault::Columns, "1 columns"),
    ] {
        let text = with_bad_line(line);
        let format = Some(Format::Alibaba);
        let strict = ReadOptions { format, ..ReadOptions::strict() };
        let error = read(text.as_bytes(), &strict).unwrap_err();
        assert_eq!(error.place, Place::Line(2), "{line}");
        let message = error.to_string();
        assert!(message.starts_with("t line 2: ") && message.contains(value), "{message}");
        assert!(message.contains("; "), "says what to do: {message}");

        let options = ReadOptions {
            format,
            bad_record: BadRecord::Skip,
            time_back: TimeBack::Skip,
            ..ReadOptions::default()
        };
        let (requests, _, report) = read(text.as_bytes(), &options).unwrap();
        assert_eq!(requests.len(), 2, "{line}");
        assert_eq!(report.skipped.count(fault), 1, "{line}: {report:?}");
        assert_eq!(report.skipped.total(), 1);
        assert_eq!(report.examples[0].place, Place::Line(2));
        assert_eq!(report.records, 3);
    }
}

#[test]
fn times_that_go_back_are_raised_by_default_and_counted() {
    let text = "1,W,0,512,100\n1,W,0,512,90\n1,W,0,512,95\n1,W,0,512,101\n";
    let (requests, _, report) = read(text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(requests.iter().map(|it| it.time.0).collect::<Vec<_>>(), [0, 0, 0, 1_000]);
    assert_eq!((report.times_raised, report.raised_ns_max), (2, 10_000));
}

#[test]
fn a_very_long_line_is_skipped_in_bounded_memory() {
    let text = with_bad_line(&"7".repeat(1 << 20));
    let (requests, _, report) = read(text.as_bytes(), &ReadOptions::lenient()).unwrap();
    assert_eq!(requests.len(), 2);
    assert_eq!(report.skipped.count(Fault::LineLength), 1);
    assert_eq!(report.examples[0].place, Place::Line(2));
}

#[test]
fn a_last_line_without_newline_is_read_and_said() {
    let (requests, _, report) = read(GOOD.as_bytes(), &ReadOptions::strict()).unwrap();
    assert_eq!(requests.len(), 1);
    assert!(report.notes[0].contains("no newline"));
    let cut = format!("{GOOD}\n{}", &GOOD[..12]);
    let error = read(cut.as_bytes(), &ReadOptions::strict()).unwrap_err();
    assert_eq!(error.place, Place::Line(2));
}

#[test]
fn a_binary_trace_that_ends_within_a_record_is_truncated() {
    let mut record = vec![0; 32];
    record[4..8].copy_from_slice(&512u32.to_le_bytes());
    record[12] = 0x2a;
    record[15] = 1;
    let trace = [&record[..], &record, &record[..20]].concat();
    let error = read(&trace, &ReadOptions::strict()).unwrap_err();
    assert_eq!(error.place, Place::Byte(64));
    assert!(error.to_string().contains("20 of 32 bytes"), "{error}");
    let (requests, _, report) = read(&trace, &ReadOptions::lenient()).unwrap();
    assert_eq!((requests.len(), report.skipped.count(Fault::Truncated)), (2, 1));
}

#[test]
fn a_recording_with_more_after_its_end_is_refused() {
    let (mut bytes, _) = write(&[], &volumes(&[]), Format::Mjolnir, None);
    bytes.extend_from_slice(b"more");
    assert!(read(&bytes, &ReadOptions::strict()).is_err());
    let (_, _, report) = read(&bytes, &ReadOptions::lenient()).unwrap();
    assert_eq!(report.skipped.count(Fault::Damaged), 1);
}

/// The corpus, and a few requests in each format that can be written.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/trace");
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(path).unwrap()))
        .collect();
    assert!(all.len() >= 20, "{folder} is not whole");
    all.sort();
    for format in Format::ALL.into_iter().filter(|format| format.abilities().written) {
        let mut chance = Chance::new(1);
        let mut time = 0;
        let requests: Vec<Request> =
            (0..40).map(|_| chance.request(format, 3, &mut time)).collect();
        let (bytes, _) = write(&requests, &volumes(&["1,0", "2", "c"]), format, None);
        all.push((format!("made as {format}"), bytes));
    }
    all
}

/// Drives, and says what it was if that fails.
fn checked(what: &str, bytes: &[u8]) {
    let outcome = std::panic::catch_unwind(|| drive(bytes));
    assert!(outcome.is_ok(), "{what} breaks a reader: {bytes:?}");
}

#[test]
fn no_bytes_make_a_reader_panic() {
    for (number, (name, seed)) in seeds().iter().enumerate() {
        checked(name, seed);
        for round in 0..60 {
            let mut chance = Chance::new(round * 1000 + number as u64);
            let mut bytes = seed.clone();
            for _ in 0..1 + chance.below(6) {
                let at = chance.below(bytes.len() as u64) as usize;
                match chance.below(5) {
                    0 => bytes[at] = chance.bits() as u8,
                    1 => bytes[at] ^= 1 << chance.below(8),
                    2 => bytes.truncate(at.max(1)),
                    3 => {
                        let from = chance.below(bytes.len() as u64) as usize;
                        let part = bytes[from..(from + 40).min(bytes.len())].to_vec();
                        bytes.splice(at..at, part);
                    }
                    _ => bytes[at] = b"0123456789,. -\n\0\xff"[chance.below(17) as usize],
                }
            }
            checked(&format!("{name}, mutation {round}"), &bytes);
        }
    }
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let bytes: Vec<u8> = (0..chance.below(600)).map(|_| chance.bits() as u8).collect();
        checked(&format!("random bytes of seed {seed}"), &bytes);
    }
}

#[test]
fn frames_whose_checksums_are_right_and_contents_wrong_do_no_harm() {
    for seed in 0..2000 {
        let mut chance = Chance::new(seed);
        let mut bytes = mjolnir_workload::trace::TraceHeader::default().to_bytes().to_vec();
        for _ in 0..3 {
            let payload: Vec<u8> = (0..chance.below(80))
                .map(|_| if chance.below(3) == 0 { 0xff } else { chance.bits() as u8 })
                .collect();
            let mut header = Vec::new();
            header.extend_from_slice(b"MJFR");
            header.extend_from_slice(&[1 + chance.below(3) as u8, 0, 0, 0]);
            header.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            header.extend_from_slice(&(chance.below(40) as u32).to_le_bytes());
            header.extend_from_slice(&chance.below(3).to_le_bytes());
            header.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
            header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(&payload);
        }
        checked(&format!("frames of seed {seed}"), &bytes);
    }
}
