//! The limit of open files of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have as many files open as it may ask for; returns how many that are. Shells begin
/// programs with a lower limit, for those that cannot have many.
pub fn raise_open_files_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    now.unwrap_or(u64::MAX)
}
