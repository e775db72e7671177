//! Which program results are of.

use std::io::Read;

use mjolnir_experiment::Version;

/// The version, and a checksum of the program's own file: results of one build are never taken for
/// those of another.
pub fn version() -> Version {
    let build = checksum().map_or("unknown".to_owned(), |sum| format!("crc32c-{sum:08x}"));
    Version { version: env!("CARGO_PKG_VERSION").to_owned(), build }
}

fn checksum() -> Option<u32> {
    // What runs, even where its file has been replaced.
    let own = std::fs::File::open("/proc/self/exe");
    let mut file = own.or_else(|_| std::fs::File::open(std::env::current_exe()?)).ok()?;
    let (mut sum, mut buffer) = (0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(sum),
            read => sum = crc32c::crc32c_append(sum, &buffer[..read]),
        }
    }
}
