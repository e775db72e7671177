//! `cargo xtask bench --json` prints lines of JSON to standard output and nothing else.
//!
//! Stand-ins for `apt-get`, `cargo` and the benchmark talk on standard output. Only what the benchmark
//! says may arrive there. (`apt-get` is called for root alone.)

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROW: &str = r#"{"name":"row","figure":1.0}"#;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(folder.join("release")).unwrap();
        Folder(folder)
    }

    /// Puts a shell script into the folder.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays lies within the build folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn only_the_benchmark_reaches_standard_output() {
    let folder = Folder::new("bench-output");
    folder.script("apt-get", r#"echo "apt-get on stdout: $*""#);
    let metadata = format!(
        r#"{{"packages":[],"workspace_members":[],"target_directory":"{}"}}"#,
        folder.0.display()
    );
    let cargo = folder.script(
        "cargo",
        &format!("if [ \"$1\" = metadata ]; then echo '{metadata}'; else echo \"cargo on stdout: $*\"; fi"),
    );
    folder.script("release/mjolnir-bench", &format!("echo '{ROW}'; echo \"with $*\" >&2"));

    // No tool is on this path, so the missing ones are installed, as far as the rights go.
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "--json", "row"])
        .env("PATH", &folder.0)
        .env("CARGO", &cargo)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let aside = String::from_utf8(output.stderr).unwrap();

    assert!(output.status.success(), "{}: {aside}", output.status);
    assert_eq!(told, format!("{ROW}\n"));
    assert!(aside.contains("cargo on stdout: build --release"), "{aside}");
    assert!(aside.contains("with --json row"), "{aside}");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        assert!(aside.contains("apt-get on stdout: install"), "{aside}");
    }
}
