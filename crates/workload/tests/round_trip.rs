//! What is written in a format is read back equal, as far as the format can hold it; and what it
//! cannot hold is counted.

mod support;

use std::time::Duration;

use mjolnir_workload::trace::{
    Format, FrameEncoder, Losses, ReadOptions, TraceHeader, TraceReader, TraceWriter, Volumes,
    convert,
};
use mjolnir_workload::{Op, Request};
use support::{Chance, read, request, volumes, write};

/// Names that the format can hold as they are.
fn fitting_names(format: Format) -> Vec<&'static str> {
    match format {
        Format::Mjolnir => vec!["data base", "log,0", "", "größe"],
        Format::FioV2 | Format::FioV3 => vec!["/dev/sda", "log,0", "x.y"],
        Format::Msr => vec!["hm,0", "hm,1", "web,0"],
        Format::Blkparse => vec!["8,0", "259,3"],
        _ => vec!["7", "0", "1063"],
    }
}

/// Volumes are numbered by first sight when read: numbers them so.
fn renumbered(requests: &[Request], names: &[&str]) -> (Vec<Request>, Vec<String>) {
    let mut seen = Volumes::new();
    let requests = requests
        .iter()
        .map(|it| {
            let volume = seen.intern(names[it.volume.0 as usize].as_bytes()).unwrap();
            Request { volume, ..*it }
        })
        .collect();
    (requests, seen.names().map(|(_, name)| name.to_owned()).collect())
}

#[test]
fn every_format_that_is_written_is_read_back() {
    for format in Format::ALL.into_iter().filter(|format| format.abilities().written) {
        for seed in 0..60 {
            let mut chance = Chance::new(seed);
            let names = fitting_names(format);
            let mut time = 0;
            let count = 1 + chance.below(400);
            let mut requests: Vec<Request> =
                (0..count).map(|_| chance.request(format, names.len() as u64, &mut time)).collect();
            let start = requests[0].time.0;
            for request in &mut requests {
                request.time.0 -= start;
            }
            let unix = [None, Some(1_600_000_000_000_000_000)][chance.below(2) as usize];
            let (bytes, losses) = write(&requests, &volumes(&names), format, unix);
            let mut expected = Losses::default();
            if format == Format::FioV2 {
                expected.times_left_out = count;
            }
            assert_eq!(losses, expected, "{format}, seed {seed}");
            // A few lines of bytes may look like another format: say which it is.
            let options = ReadOptions { format: Some(format), ..ReadOptions::strict() };
            let (again, names_again, report) = read(&bytes, &options)
                .unwrap_or_else(|error| panic!("{format}, seed {seed}: {error}"));
            let (wanted, names_wanted) = renumbered(&requests, &names);
            if format == Format::Mjolnir {
                assert_eq!(report.start_unix_ns, unix);
                assert!(!report.cut);
            }
            assert_eq!(again, wanted, "{format}, seed {seed}");
            assert_eq!(names_again, names_wanted, "{format}, seed {seed}");
        }
    }
}

#[test]
fn what_is_written_is_recognised() {
    for format in Format::ALL.into_iter().filter(|format| format.abilities().written) {
        let names = fitting_names(format);
        let can = format.abilities();
        let second = Request {
            latency: (can.latency_unit_ns > 0).then_some(Duration::from_micros(3)),
            ..request(1_000_000_000, 0, Op::Read, 4608, 8192)
        };
        let first = Request { time: mjolnir_units::Instant(0), op: Op::Write, ..second };
        let (bytes, _) = write(&[first, second], &volumes(&names), format, None);
        assert_eq!(mjolnir_workload::trace::detect(&bytes), Ok(format));
    }
}

#[test]
fn a_recording_keeps_its_times_and_its_size_small() {
    let requests: Vec<Request> =
        (0..100_000).map(|n| request(5_000 + n * 10_000, 0, Op::Write, n * 4096, 4096)).collect();
    let (bytes, _) = write(&requests, &volumes(&["a"]), Format::Mjolnir, None);
    let (again, _, _) = read(&bytes, &ReadOptions::strict()).unwrap();
    assert_eq!(again, requests);
    assert!(bytes.len() < 410_000, "{} bytes: 4 a request", bytes.len());
}

#[test]
fn a_recorder_without_a_writer_makes_the_same_bytes() {
    let mut chance = Chance::new(5);
    let mut time = 0;
    let requests: Vec<Request> =
        (0..30_000).map(|_| chance.request(Format::Mjolnir, 1, &mut time)).collect();
    let (written, _) = write(&requests, &volumes(&["a"]), Format::Mjolnir, Some(7));
    let mut encoded = TraceHeader { start_unix_ns: Some(7) }.to_bytes().to_vec();
    let mut frames = FrameEncoder::new();
    frames.name(requests[0].volume, "a");
    for request in &requests {
        if frames.push(request) {
            frames.take(&mut encoded);
            assert_eq!(frames.waiting(), 0);
        }
    }
    frames.end(&mut encoded);
    assert_eq!(encoded, written);
}

#[test]
fn a_crash_loses_only_what_was_in_no_frame() {
    let requests: Vec<Request> =
        (0..30_000).map(|n| request(n * 977, 0, Op::Write, n * 8192, 4096)).collect();
    let mut writer = TraceWriter::new(Vec::new(), Format::Mjolnir, None).unwrap();
    let names = volumes(&["a"]);
    for (number, request) in requests.iter().enumerate() {
        writer.write(request, &names).unwrap();
        if number == 20_000 {
            writer.flush().unwrap();
        }
    }
    let (bytes, _) = writer.finish().unwrap();
    for cut in (64..bytes.len()).step_by(997).chain([64, 65, bytes.len() - 1]) {
        let (again, _, report) = read(&bytes[..cut], &ReadOptions::strict()).unwrap();
        assert_eq!(again, requests[..again.len()], "cut at {cut}");
        assert!(report.cut, "cut at {cut}");
        assert!(report.notes[0].contains("no closing mark"), "{:?}", report.notes);
        // Some file systems leave zeroes where the rest should be.
        let mut zeroes = bytes[..cut].to_vec();
        zeroes.resize(cut + 5000, 0);
        let lenient = read(&zeroes, &ReadOptions::lenient()).unwrap();
        assert_eq!(lenient.0, again, "cut at {cut}, zeroes after");
    }
    let (again, _, report) = read(&bytes, &ReadOptions::strict()).unwrap();
    assert_eq!(again, requests);
    assert!(!report.cut);
    let whole_frames = read(&bytes[..bytes.len() - 33], &ReadOptions::strict()).unwrap().0.len();
    assert!(whole_frames > 20_000);
}

#[test]
fn a_damaged_frame_is_named_or_skipped_alone() {
    let requests: Vec<Request> = (0..60_000)
        .map(|n| request(n * 977, 0, Op::Write, (n * 7919) % 99_991 * 4096, 4096))
        .collect();
    let (mut bytes, _) = write(&requests, &volumes(&["a"]), Format::Mjolnir, None);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let error = read(&bytes, &ReadOptions::strict()).unwrap_err().to_string();
    assert!(error.contains("at byte") && error.contains("checksum"), "{error}");
    let (again, _, report) = read(&bytes, &ReadOptions::lenient()).unwrap();
    assert_eq!(report.skipped.total(), 1);
    assert!(again.len() < requests.len() && again.len() > requests.len() / 2, "{}", again.len());
    let mut rest = requests.iter();
    assert!(again.iter().all(|found| rest.any(|wanted| wanted == found)), "in order, none changed");
}

#[test]
fn what_a_format_cannot_hold_is_counted() {
    let names = volumes(&["data base", "5", "log"]);
    let requests = [
        Request { stream: Some(3), ..request(0, 0, Op::Write, 100, 1000) },
        request(1_234, 1, Op::Trim, 4096, 4096),
        request(1_234, 1, Op::Flush, 0, 0),
        request(1_234, 1, Op::WriteZeroes, 4096, 4096),
        Request { latency: Some(Duration::from_nanos(50)), ..request(1_500, 2, Op::Read, 0, 512) },
    ];
    let (text, losses) = write(&requests, &names, Format::DiskSim, None);
    assert_eq!(
        losses,
        Losses {
            trims: 1,
            flushes: 1,
            zeroes: 1,
            streams: 1,
            latencies: 1,
            addresses_rounded: 1,
            names_changed: 2,
            ..Losses::default()
        }
    );
    assert_eq!(losses.lines().len(), 7);
    assert_eq!(text, b"0.000000 0 0 3 0\n0.001500 2 0 1 1\n");

    let (text, losses) = write(&requests, &names, Format::FioV3, None);
    assert_eq!((losses.zeroes, losses.times_rounded, losses.names_changed), (1, 3, 1));
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("0 data_base.0 write 100 1000\n1 5 add\n1 5 open\n1 5 trim"), "{text}");
    assert!(text.ends_with("1 data_base.0 close\n1 5 close\n1 log close\n"), "{text}");

    let (text, losses) = write(&requests, &names, Format::Msr, Some(0));
    assert_eq!(
        (losses.latencies_rounded, losses.latencies_unknown, losses.names_changed),
        (1, 1, 2)
    );
    assert!(text.starts_with(b"116444736000000000,data_base,0,Write,100,1000,0\n"));
}

#[test]
fn volumes_never_share_a_label() {
    let names = volumes(&["b", "1", "0", "a"]);
    let requests: Vec<Request> =
        (0..4).map(|volume| request(0, volume, Op::Read, 0, 512)).collect();
    let (text, _) = write(&requests, &names, Format::MqSim, None);
    let (_, names, _) = read(&text, &ReadOptions::strict()).unwrap();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn a_trace_is_converted_to_a_recording_and_back() {
    let text = "128166372003061600,web,0,Read,7014609920,24576,41286\n\
                128166372003061700,web,1,Write,512,4096,5\n";
    let mut reader = TraceReader::open(text.as_bytes(), "a", &ReadOptions::strict()).unwrap();
    let start = reader.look_ahead().unwrap().start_unix_ns;
    assert!(start.is_some());
    assert_eq!(reader.report().requests, 0);
    let writer = TraceWriter::new(Vec::new(), Format::Mjolnir, start).unwrap();
    let (recording, conversion) = convert(&mut reader, writer).unwrap();
    assert_eq!((conversion.read, conversion.written), (2, 2));
    assert!(conversion.losses.is_none());

    let mut reader = TraceReader::open(&recording[..], "b", &ReadOptions::strict()).unwrap();
    let start = reader.report().start_unix_ns;
    let writer = TraceWriter::new(Vec::new(), Format::Msr, start).unwrap();
    let (back, conversion) = convert(&mut reader, writer).unwrap();
    assert!(conversion.losses.is_none(), "{:?}", conversion.losses);
    assert_eq!(String::from_utf8(back).unwrap(), text);
}

#[test]
fn a_format_that_is_only_read_is_refused() {
    let error = TraceWriter::new(Vec::new(), Format::Vscsi1, None).err().unwrap().to_string();
    assert!(error.contains("vscsi1") && error.contains("choose another"), "{error}");
}

#[test]
fn the_documents_example_is_so() {
    let requests = [request(0, 0, Op::Write, 0, 4096), request(2_000, 0, Op::Write, 4096, 4096)];
    let (bytes, _) = write(&requests, &volumes(&["a"]), Format::Mjolnir, None);
    let names = &bytes[64..64 + 32 + 3];
    assert_eq!(names[32..], [0, 1, b'a']);
    let frame = &bytes[64 + 32 + 3..];
    assert_eq!(frame[4], 2);
    assert_eq!(frame[32..38], [0x21, 0x00, 0x10, 0x01, 0xa0, 0x1f]);
    assert_eq!(frame[38 + 4], 3, "the end");
    assert_eq!(frame.len(), 38 + 32);
}
