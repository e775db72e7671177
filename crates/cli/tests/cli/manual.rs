//! Help, completions and manual pages come from the same definitions, and all name the commands.

use std::io::Read;
use std::process::Stdio;

use crate::support::Folder;

const COMMANDS: [&str; 14] = [
    "format",
    "serve",
    "volume",
    "snapshot",
    "clone",
    "range",
    "gc",
    "stats",
    "scrub",
    "check",
    "grow",
    "completions",
    "demo",
    "lab",
];

#[test]
fn every_command_is_in_help_completions_and_manual() {
    let folder = Folder::empty();
    let help = folder.ok("");
    assert!(help.contains("mjolnir format s.mj --size 16G"), "help has examples: {help}");
    let mut texts = vec![help, folder.ok("--help"), folder.ok("man")];
    for shell in ["bash", "zsh", "fish"] {
        texts.push(folder.ok(&format!("completions {shell}")));
    }
    for text in texts {
        for command in COMMANDS {
            assert!(text.contains(command), "no {command} in {text}");
        }
    }
    folder.ok("man --out pages");
    for page in ["mjolnir.1", "mjolnir-serve.1", "mjolnir-volume-create.1", "mjolnir-lab-run.1"] {
        assert!(folder.path("pages").join(page).exists(), "{page}");
    }
}

#[test]
fn wrong_command_lines_end_with_2() {
    let folder = Folder::empty();
    folder.misused("frobnicate", &["frobnicate"]);
    folder.misused("format", &["STORE"]);
    folder.misused("volume create s.mj v", &["--size"]);
    folder.misused("volume create s.mj v --sise 1G", &["--size"]);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let folder = Folder::empty();
    for words in ["completions zsh", "--help", "man"] {
        let mut child =
            folder.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        assert_eq!((child.wait().unwrap().code(), complaint.as_str()), (Some(0), ""), "{words}");
    }
}
