//! Each format is recognised by its content and read in its own units.

mod support;

use std::time::Duration;

use mjolnir_workload::trace::{Compression, Format, PassedOver, ReadOptions, TraceReader, detect};
use mjolnir_workload::{Op, Request};
use support::{read, request};

/// Reads a sample in strict mode; checks that its format is recognised.
fn sample(format: Format, bytes: &[u8]) -> (Vec<Request>, Vec<String>) {
    assert_eq!(detect(bytes), Ok(format));
    let (requests, names, report) = read(bytes, &ReadOptions::strict()).unwrap();
    assert_eq!(report.format, format);
    assert!(report.detected);
    assert_eq!(report.requests, requests.len() as u64);
    assert_eq!(report.skipped.total(), 0);
    (requests, names)
}

fn with_latency(request: Request, ns: u64) -> Request {
    Request { latency: Some(Duration::from_nanos(ns)), ..request }
}

#[test]
fn msr_cambridge() {
    let text = b"128166372003061629,web,0,Read,7014609920,24576,41286\n\
                 128166372003061729,web,1,Write,512,4096,5\r\n\
                 128166372003061730,web,0,Write,4096,4096,0\n";
    let (requests, names) = sample(Format::Msr, text);
    assert_eq!(names, ["web,0", "web,1"]);
    assert_eq!(
        requests,
        [
            with_latency(request(0, 0, Op::Read, 7_014_609_920, 24_576), 4_128_600),
            with_latency(request(10_000, 1, Op::Write, 512, 4096), 500),
            with_latency(request(10_100, 0, Op::Write, 4096, 4096), 0),
        ]
    );
    let (_, _, report) = read(text, &ReadOptions::strict()).unwrap();
    // 22 February 2007, 17:00:00.306 UTC.
    assert_eq!(report.start_unix_ns, Some(1_172_163_600_306_162_900));
    assert_eq!(report.first_time, Some(128_166_372_003_061_629));
}

#[test]
fn a_header_line_is_passed_over() {
    let text = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
                 128166372003061629,web,0,Read,0,512,1\n";
    let (requests, _, report) = read(text, &ReadOptions::strict()).unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!(report.passed_over.count(PassedOver::Header), 1);
}

#[test]
fn the_millisecond_cut() {
    let text = b"0.000 0 200626176 4096 0\n223.412 0 3159347200 36864 1\n223.434 1 512 512 0\n";
    let (requests, names) = sample(Format::Millisecond, text);
    assert_eq!(names, ["0", "1"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Write, 200_626_176, 4096),
            request(223_412_000, 0, Op::Read, 3_159_347_200, 36_864),
            request(223_434_000, 1, Op::Write, 512, 512),
        ]
    );
}

#[test]
fn disksim() {
    let text = b"0.000000 0 1000 8 0\n1.500000 0 1024 16 1\n2.250 3 16 8 0x41\n";
    let (requests, names) = sample(Format::DiskSim, text);
    assert_eq!(names, ["0", "3"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Write, 512_000, 4096),
            request(1_500_000, 0, Op::Read, 524_288, 8192),
            request(2_250_000, 1, Op::Read, 8192, 4096),
        ]
    );
}

#[test]
fn mqsim() {
    let text = b"938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n";
    let (requests, names) = sample(Format::MqSim, text);
    assert_eq!(names, ["4", "3"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Write, 264_719_034 * 512, 8192),
            request(315_000, 1, Op::Read, 197_570_570 * 512, 8192),
        ]
    );
}

#[test]
fn spc() {
    let text = b"0,303567,3584,w,0.000000\n1, 55590, 3072, R, 0.026214, x, y\n";
    let (requests, names) = sample(Format::Spc, text);
    assert_eq!(names, ["0", "1"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Write, 303_567 * 512, 3584),
            request(26_214_000, 1, Op::Read, 55_590 * 512, 3072),
        ]
    );
}

#[test]
fn alibaba() {
    let text = b"419,W,8792731648,16384,1577808000000146\n725,R,0,4096,1577808000000149\n";
    let (requests, names) = sample(Format::Alibaba, text);
    assert_eq!(names, ["419", "725"]);
    assert_eq!(
        requests,
        [request(0, 0, Op::Write, 8_792_731_648, 16_384), request(3_000, 1, Op::Read, 0, 4096)]
    );
}

#[test]
fn tencent() {
    let text = b"1538323199,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n";
    let (requests, names) = sample(Format::Tencent, text);
    assert_eq!(names, ["1063", "1627"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Read, 12_910_952 * 512, 65_536),
            request(1_000_000_000, 1, Op::Write, 6_338_688 * 512, 4096),
        ]
    );
}

#[test]
fn systor() {
    let text = b"Timestamp,Response,IOType,LUN,Offset,Size\n\
                 1455592481.078581,0.000253,R,0,40409178112,8192\n\
                 1455592481.078600,,W,4,512,512\n";
    let (requests, names) = sample(Format::Systor, text);
    assert_eq!(names, ["0", "4"]);
    assert_eq!(
        requests,
        [
            with_latency(request(0, 0, Op::Read, 40_409_178_112, 8192), 253_000),
            request(19_000, 1, Op::Write, 512, 512),
        ]
    );
}

#[test]
fn fio_version_3() {
    let text = b"fio version 3 iolog\n2 /dev/a add\n872 /dev/a open\n878 /dev/a write 0 16384\n\
                 888 /dev/a sync 0 0\n891 /dev/a trim 4096 8192\n900 /dev/a datasync\n901 /dev/a close\n";
    let (requests, names) = sample(Format::FioV3, text);
    assert_eq!(names, ["/dev/a"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Write, 0, 16_384),
            request(10_000, 0, Op::Flush, 0, 0),
            request(13_000, 0, Op::Trim, 4096, 8192),
            request(22_000, 0, Op::Flush, 0, 0),
        ]
    );
}

#[test]
fn fio_version_2_has_no_times_but_its_waits() {
    let text = b"fio version 2 iolog\na add\na open\na read 0 4096\na wait 500 0\n\
                 a write 4096 4096\na sync\na close\n";
    let (requests, _) = sample(Format::FioV2, text);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Read, 0, 4096),
            request(500_000, 0, Op::Write, 4096, 4096),
            request(500_000, 0, Op::Flush, 0, 0),
        ]
    );
}

const BLKPARSE: &[u8] =
    b"  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
    \x20 8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]\n\
    \x20 8,0    3        3     0.000004359   697  P   N [kjournald]\n\
    \x20 8,0    3        4     0.000005000   697  m   N cfq697 alloced\n\
    \x20 8,0    3        5     0.000010000   697  D   W 223490 + 8 [kjournald]\n\
    \x20 8,0    3        6     0.001000000     0  C   W 223490 + 8 [0]\n\
    \x20 8,16   1        7     0.002000000   700  Q  FWFS 16 + 8 [a b]\n\
    \x20 8,16   1        8     0.003000000   700  Q  FWS [jbd2/sda1]\n\
    \x20 8,16   1        9     0.004000000   700  Q   D 2048 + 4096 [fstrim]\n\
    \x20 8,16   1       10     0.005000000   700  Q  RAM 8 + 8 [ls]\n\
    CPU0 (8,0):\n Reads Queued:           1,        4KiB\n\n";

#[test]
fn blkparse() {
    let (requests, names) = sample(Format::Blkparse, BLKPARSE);
    assert_eq!(names, ["8,0", "8,16"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Write, 223_490 * 512, 4096),
            // A write that asks for a flush first is two requests.
            request(2_000_000, 1, Op::Flush, 0, 0),
            request(2_000_000, 1, Op::Write, 8192, 4096),
            request(3_000_000, 1, Op::Flush, 0, 0),
            request(4_000_000, 1, Op::Trim, 1 << 20, 2 << 20),
            request(5_000_000, 1, Op::Read, 4096, 4096),
        ]
    );
    let (_, _, report) = read(BLKPARSE, &ReadOptions::strict()).unwrap();
    assert_eq!(report.passed_over.count(PassedOver::OtherEvent), 5);
    assert_eq!(report.passed_over.count(PassedOver::Footer), 2);
    assert!(report.notes.iter().any(|note| note.contains("action Q")), "{:?}", report.notes);
}

#[test]
fn looking_ahead_changes_nothing() {
    let text = b"8,0 1 1 0.5 7 Q FWS 16 + 8 [a]\n8,0 1 1 0.6 7 Q R 16 + 8 [a]\n";
    let mut reader = TraceReader::open(&text[..], "t", &ReadOptions::strict()).unwrap();
    for _ in 0..2 {
        assert_eq!(reader.look_ahead().unwrap().requests, 0);
    }
    let ops: Vec<Op> = reader.by_ref().map(|request| request.unwrap().op).collect();
    assert_eq!(ops, [Op::Flush, Op::Write, Op::Read]);
    assert_eq!(reader.look_ahead().unwrap().requests, 3);
}

#[test]
fn blkparse_by_another_action() {
    let options = ReadOptions { blkparse_action: Some(b'D'), ..ReadOptions::strict() };
    let (requests, _, _) = read(BLKPARSE, &options).unwrap();
    assert_eq!(requests, [request(0, 0, Op::Write, 223_490 * 512, 4096)]);
    // Without any Q it is found out.
    let text: Vec<u8> =
        String::from_utf8(BLKPARSE.to_vec()).unwrap().replace("  Q  ", "  I  ").into();
    let (requests, _, _) = read(&text, &ReadOptions::strict()).unwrap();
    assert_eq!(requests, [request(0, 0, Op::Write, 223_490 * 512, 4096)]);
}

#[test]
fn blkparse_of_issued_and_completed_requests_has_flushes_and_commands_of_others() {
    let text = b"8,0 1 1 0.1 123 D R 36 (12 00 00 00 24 00) [smartctl]\n\
                 8,0 1 2 0.2 0 C R (12 00 00 00 24 00) [0]\n\
                 8,0 1 3 0.3 123 D R 512 [smartctl]\n\
                 8,0 1 4 0.4 9 D FN [kworker/1:1H]\n\
                 8,0 1 5 0.5 0 C FN 0 [0]\n\
                 8,0 1 6 0.6 9 D WS 16 + 8 [a]\n\
                 8,0 1 7 0.7 0 C WS 16 + 8 [0]\n\
                 8,0 1 8 0.8 0 C WS 24 [0]\n";
    for action in *b"DC" {
        let options = ReadOptions { blkparse_action: Some(action), ..ReadOptions::strict() };
        let (requests, _, report) = read(&text[..], &options).unwrap();
        assert_eq!(
            requests,
            [request(0, 0, Op::Flush, 0, 0), request(200_000_000, 0, Op::Write, 8192, 4096)],
            "{}",
            char::from(action)
        );
        assert_eq!(report.passed_over.count(PassedOver::OtherEvent), 6);
    }
    let torn = b"8,0 1 1 0.1 123 D R 36\n";
    let options = ReadOptions { blkparse_action: Some(b'D'), ..ReadOptions::strict() };
    assert!(read(&torn[..], &options).is_err(), "what is cut off is not passed over");
}

fn vscsi_1(length: u32, command: u16, sector: u64, us: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend_from_slice(&7u32.to_le_bytes());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&1u32.to_le_bytes());
    record.extend_from_slice(&command.to_le_bytes());
    record.extend_from_slice(&0x100u16.to_le_bytes());
    record.extend_from_slice(&sector.to_le_bytes());
    record.extend_from_slice(&us.to_le_bytes());
    record
}

fn vscsi_2(length: u32, command: u16, sector: u64, us: u64, response: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend_from_slice(&command.to_le_bytes());
    record.extend_from_slice(&0x200u16.to_le_bytes());
    record.extend_from_slice(&7u32.to_le_bytes());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&1u32.to_le_bytes());
    record.extend_from_slice(&sector.to_le_bytes());
    record.extend_from_slice(&us.to_le_bytes());
    record.extend_from_slice(&response.to_le_bytes());
    record
}

#[test]
fn vscsi_of_both_versions() {
    let first = [
        vscsi_1(512, 0x2a, 42_932_745, 5_632_000_000),
        vscsi_1(0, 0x00, 0, 5_632_000_001),
        vscsi_1(4096, 0x28, 8, 5_632_000_005),
        vscsi_1(0, 0x35, 0, 5_632_000_006),
    ]
    .concat();
    let (requests, names) = sample(Format::Vscsi1, &first);
    assert_eq!(names, ["0"]);
    assert_eq!(
        requests,
        [
            request(0, 0, Op::Write, 42_932_745 * 512, 512),
            request(5_000, 0, Op::Read, 4096, 4096),
            request(6_000, 0, Op::Flush, 0, 0),
        ]
    );

    let second = [vscsi_2(4096, 0x8a, 16, 100, 250), vscsi_2(4096, 0x88, 24, 101, 3)].concat();
    let (requests, _) = sample(Format::Vscsi2, &second);
    assert_eq!(requests[0], with_latency(request(0, 0, Op::Write, 8192, 4096), 250_000));
    assert_eq!(requests[1], with_latency(request(1_000, 0, Op::Read, 12_288, 4096), 3_000));
}

#[test]
fn a_vscsi_time_of_32_bits_wraps_around() {
    let trace = [
        vscsi_1(512, 0x2a, 0, u64::from(u32::MAX)),
        vscsi_1(512, 0x2a, 0, 9),
        vscsi_1(512, 0x2a, 0, 10),
    ]
    .concat();
    let (requests, _, report) = read(&trace, &ReadOptions::strict()).unwrap();
    assert_eq!(requests.iter().map(|it| it.time.0).collect::<Vec<_>>(), [0, 10_000, 11_000]);
    assert_eq!(report.time_wraps, 1);
}

#[test]
fn gzip_is_unpacked() {
    use std::io::Write;
    let text = b"419,W,8792731648,16384,1577808000000146\n725,R,0,4096,1577808000000149\n";
    let mut packed = Vec::new();
    for half in [&text[..30], &text[30..]] {
        // Two members, as log rotation makes them.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(half).unwrap();
        packed.extend_from_slice(&encoder.finish().unwrap());
    }
    let (requests, _, report) = read(&packed, &ReadOptions::strict()).unwrap();
    assert_eq!(report.compression, Compression::Gzip);
    assert_eq!(report.format, Format::Alibaba);
    assert_eq!(requests.len(), 2);
    // Cut short, it is an error, or in lenient mode the end.
    let cut = &packed[..packed.len() - 12];
    let error = read(cut, &ReadOptions::strict()).unwrap_err().to_string();
    assert!(error.contains("cut or damaged"), "{error}");
    let (requests, _, report) = read(cut, &ReadOptions::lenient()).unwrap();
    assert!(!requests.is_empty() && report.skipped.total() >= 1);
}

#[test]
fn what_is_no_trace_is_described() {
    for (bytes, expected) in [
        (&b""[..], "empty"),
        (b"\n\n\n", "blank lines"),
        (b"hello, world\n", "hello, world"),
        (b"\x28\xb5\x2f\xfd\0\0\0\0\0", "zstd -d"),
        (b"\xfd7zXZ\0\0\0\0", "xz -d"),
        (b"\x7fELF\0\0\0\0\0", "binary"),
        (b"fio version 1 iolog\n", "version 1"),
    ] {
        let error = TraceReader::open(bytes, "x.csv", &ReadOptions::default()).err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("x.csv: ") && text.contains(expected), "{text}");
    }
}

#[test]
fn the_format_can_be_said() {
    // DiskSim's columns where all numbers happen to be multiples of 512.
    let text = b"0.5 0 1024 512 1\n";
    assert_eq!(detect(text), Ok(Format::Millisecond));
    let options = ReadOptions { format: Some(Format::DiskSim), ..ReadOptions::strict() };
    let (requests, _, report) = read(text, &options).unwrap();
    assert_eq!(requests, [request(0, 0, Op::Read, 524_288, 262_144)]);
    assert!(!report.detected);
    assert!(report.notes[0].contains("millisecond"));
}

#[test]
fn the_nearest_format_is_named() {
    let error = "diksim".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("did you mean disksim?"), "{error}");
    let error = "zzz".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("blkparse") && error.contains("msr"), "{error}");
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
}
