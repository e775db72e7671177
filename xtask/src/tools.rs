//! The programs that tests against real clients drive, and where they come from.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::steps::Outcome;

/// A program that some test runs, or the full path of a file that some build needs, and the Debian
/// package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const fn tool(program: &'static str, package: &'static str) -> Tool {
    Tool { program, package }
}

const TOOLS: &[Tool] = &[
    tool("fio", "fio"),
    tool("nbdkit", "nbdkit"),
    tool("nbdinfo", "libnbd-bin"),
    tool("nbdcopy", "libnbd-bin"),
    tool("nbdfuse", "libnbd-bin"),
    tool("nbdsh", "python3-libnbd"),
    tool("qemu-img", "qemu-utils"),
    tool("qemu-io", "qemu-utils"),
    tool("qemu-nbd", "qemu-utils"),
    tool("mkfs.ext4", "e2fsprogs"),
    tool("e2fsck", "e2fsprogs"),
    tool("dumpe2fs", "e2fsprogs"),
    tool("fusermount3", "fuse3"),
    tool("losetup", "mount"),
    tool("mount", "mount"),
    tool("fstrim", "util-linux"),
    tool("cmp", "diffutils"),
    tool("chromium", "chromium"),
    tool("certtool", "gnutls-bin"),
    tool("psktool", "gnutls-bin"),
    tool(PKG_CONFIG, "pkg-config"),
    tool(OPENSSL_HEADER, "libssl-dev"),
];

const PKG_CONFIG: &str = "pkg-config";
const OPENSSL_HEADER: &str = "/usr/include/openssl/ssl.h";

/// What is missing to build the feature `tls`, in words; `None` if nothing is.
pub fn missing_for_tls() -> Option<String> {
    let needs = TOOLS.iter().filter(|tool| [PKG_CONFIG, OPENSSL_HEADER].contains(&tool.program));
    let missing = needs.filter(|tool| find(tool.program).is_none());
    let packages = join(missing.map(|tool| tool.package));
    if packages.is_empty() { None } else { Some(packages) }
}

/// Installs what is missing where that is possible: as root, with apt, and if `install` says so.
/// Never a failure: tests that lack a program say so and are skipped by name.
///
/// Nothing reaches standard output: the benchmark prints its figures there.
pub fn provide(install: bool) -> Outcome {
    let missing = missing();
    if missing.is_empty() {
        return Outcome::pass();
    }
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let programs = join(missing.iter().map(|tool| tool.program));
    let hint = format!("apt-get install {}", packages.join(" "));
    if !install {
        return Outcome::skip(format!("{programs} missing, and not asked to install ({hint})"));
    }
    if !is_root() || find("apt-get").is_none() {
        return Outcome::skip(format!(
            "{programs} missing; only root with apt installs them: {hint}"
        ));
    }
    eprintln!("{programs} missing: installing {} with apt-get", packages.join(", "));
    // The package lists may be older than the archive, so they are renewed first. Then all at
    // once; where one of them cannot be had, each alone, so that the others still arrive.
    let renewed = apt(&["update", "-q"]);
    if !(renewed && apt_install(&packages)) {
        for package in &packages {
            apt_install(&[package]);
        }
    }
    match self::missing() {
        still if still.is_empty() => Outcome::pass(),
        still => {
            let programs = join(still.iter().map(|tool| tool.program));
            Outcome::skip(format!("{programs} could not be installed"))
        }
    }
}

fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| find(tool.program).is_none()).collect()
}

/// Where a program lies on `PATH`, or where root's programs usually lie; a full path lies where it
/// says.
fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let folders = folders.chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether this process may do what only root may.
pub fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|process| process.uid() == 0)
}

fn apt_install(packages: &[&str]) -> bool {
    apt(&[&["install", "-q", "-y", "--no-install-recommends"], packages].concat())
}

fn apt(arguments: &[&str]) -> bool {
    eprintln!("$ apt-get {}", arguments.join(" "));
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command.stdout(std::io::stderr()).status().is_ok_and(|status| status.success())
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_only() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }

    #[test]
    fn without_leave_to_install_nothing_fails() {
        let outcome = provide(false);
        assert!(outcome.passed(), "{outcome:?}");
        assert_eq!(outcome.skipped.is_empty(), missing().is_empty());
    }
}
