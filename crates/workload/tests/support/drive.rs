//! Reads any bytes as a trace of each format; also what the fuzz target runs.

use mjolnir_workload::trace::{Format, ReadOptions, Summary, TraceReader};
use mjolnir_workload::{MAX_ADDRESS, Op};

/// What must hold of whatever a reader yields.
pub fn drive(bytes: &[u8]) {
    for format in Format::ALL.map(Some).into_iter().chain([None]) {
        for mut options in [ReadOptions::strict(), ReadOptions::lenient()] {
            options.format = format;
            let Ok(mut reader) = TraceReader::open(bytes, "fuzz", &options) else { continue };
            let mut last = 0;
            let mut summary = Summary::new();
            let mut yielded = 0;
            loop {
                match reader.next_request() {
                    Ok(None) => break,
                    Ok(Some(request)) => {
                        yielded += 1;
                        assert!(request.time.0 >= last, "time goes back");
                        last = request.time.0;
                        assert_eq!(request.length == 0, request.op == Op::Flush);
                        assert!(request.end() <= MAX_ADDRESS);
                        assert!(reader.volumes().name(request.volume).is_some());
                        summary.add(&request);
                    }
                    Err(error) => {
                        assert!(!error.to_string().is_empty());
                        assert!(reader.next_request().unwrap().is_none(), "an error is the end");
                        break;
                    }
                }
            }
            assert_eq!(reader.report().requests, yielded);
            assert_eq!(summary.requests(), yielded);
            assert!(yielded <= 2 * bytes.len() as u64);
        }
    }
}
