//! Running cargo, and reading what its tests say.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::Outcome;

/// A cargo command line that runs in the root, with the same cargo that runs this program.
pub fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    command
}

/// Runs a program whose exit status says all.
pub fn run(mut command: Command) -> Result<Outcome> {
    let shown = show(&command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
    Ok(outcome_of(status, &shown))
}

fn outcome_of(status: ExitStatus, shown: &str) -> Outcome {
    match status.success() {
        true => Outcome::pass(),
        false => Outcome::fail(format!("`{shown}` ended with {status}")),
    }
}

/// A program that runs beside the steps, and ends with this.
#[must_use]
pub struct Beside {
    shown: String,
    child: Child,
}

/// Begins to run a cargo command line whose exit status says all.
pub fn begin(mut command: Command) -> Result<Beside> {
    let shown = show(&command);
    println!("$ {shown}  # beside what follows");
    // Two bars of progress would be drawn over each other.
    command.env("CARGO_TERM_PROGRESS_WHEN", "never").stdin(Stdio::null());
    let child = command.spawn().with_context(|| format!("cannot run `{shown}`"))?;
    Ok(Beside { shown, child })
}

impl Beside {
    /// Waits for its end.
    pub fn end(mut self) -> Result<Outcome> {
        let status = self.child.wait().with_context(|| format!("`{}` is lost", self.shown))?;
        Ok(outcome_of(status, &self.shown))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Fails where it has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program prints, which is all that is wanted of it.
pub fn output(mut command: Command) -> Result<String> {
    let shown = show(&command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed odd bytes"))
}

/// Runs a `cargo test`, passes on what it prints, and counts its tests.
pub fn run_tests(mut command: Command) -> Result<Outcome> {
    let shown = show(&command);
    println!("$ {shown}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run `{shown}`"))?;
    let stdout = child.stdout.take().expect("it is piped");
    let mut counts = TestOutput::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("cannot read what `{shown}` prints"))?;
        let line = String::from_utf8_lossy(&line);
        if counts.read(&line) {
            writeln!(std::io::stdout(), "{line}").context("cannot print")?;
        }
    }
    let status = child.wait().with_context(|| format!("`{shown}` is lost"))?;
    Ok(counts.finish(status.success(), &shown))
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let program = Path::new(words[0].as_ref()).file_name().unwrap_or_default().to_string_lossy();
    std::iter::once(program).chain(words[1..].iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// Counts tests from the lines that the test harness prints with `--show-output`.
#[derive(Default)]
struct TestOutput {
    outcome: Outcome,
    /// Within what tests printed that passed.
    in_successes: bool,
}

impl TestOutput {
    /// Reads a line; whether it is worth showing. What tests print that pass is not: it is asked
    /// for only because a test that lacks a program says so there.
    fn read(&mut self, line: &str) -> bool {
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ if line.starts_with("test result: ") => self.in_successes = false,
            _ => {}
        }
        self.count(line);
        !self.in_successes
    }

    fn count(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let count = |word: &str| {
                let before = counts.split(word).next().unwrap_or("").trim_end();
                before.rsplit([' ', ';']).next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
            };
            self.outcome.passed += count("passed");
            self.outcome.failed += count("failed");
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" ... FAILED") {
                self.outcome.failures.push(name.to_owned());
            } else if let Some((name, reason)) = test.split_once(" ... ignored") {
                let reason = reason.trim_start_matches([',', ' ']);
                let reason = if reason.is_empty() { "no reason given" } else { reason };
                self.outcome.skipped.push(format!("{name}: ignored ({reason})"));
            }
        } else if let Some(name_and_need) = line.strip_prefix("skipped ") {
            // A test that lacks a tool ends well, so the harness counts it as passed.
            if name_and_need.contains(": needs ") {
                self.outcome.skipped.push(name_and_need.to_owned());
                self.outcome.passed = self.outcome.passed.saturating_sub(1);
            }
        }
    }

    fn finish(mut self, success: bool, shown: &str) -> Outcome {
        if !success && self.outcome.failed == 0 {
            self.outcome.failed = 1;
            self.outcome.failures.push(format!("`{shown}` did not build or was killed"));
        }
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, success: bool) -> Outcome {
        let mut output = TestOutput::default();
        for line in text.lines() {
            output.read(line);
        }
        output.finish(success, "cargo test")
    }

    #[test]
    fn results_of_several_test_programs_are_summed() {
        let outcome = read(
            "running 3 tests\n\
             test a::b ... ok\n\
             test a::c ... FAILED\n\
             test slow ... ignored, takes an hour\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n\
             test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n",
            false,
        );
        assert_eq!((outcome.passed, outcome.failed), (13, 1));
        assert_eq!(outcome.failures, ["a::c"]);
        assert_eq!(outcome.skipped, ["slow: ignored (takes an hour)"]);
    }

    #[test]
    fn a_test_that_lacks_a_tool_is_skipped_and_not_passed() {
        let outcome = read(
            "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
             skipped ext4_on_nbdfuse: needs nbdfuse\n\
             skipped over some lines\n",
            true,
        );
        assert_eq!((outcome.passed, outcome.failed), (4, 0));
        assert_eq!(outcome.skipped, ["ext4_on_nbdfuse: needs nbdfuse"]);
    }

    #[test]
    fn what_passing_tests_print_is_not_shown() {
        let text = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nskipped a: needs fio\n\
                    \nsuccesses:\n    a\n\nfailures:\n\n---- b stdout ----\nb is wrong\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        let mut output = TestOutput::default();
        let shown: Vec<&str> =
            text.lines().filter(|line| output.read(line) && !line.is_empty()).collect();
        assert_eq!(shown[..3], ["test a ... ok", "failures:", "---- b stdout ----"]);
        assert!(shown[4].starts_with("test result"), "{shown:?}");
        assert_eq!(output.outcome.skipped, ["a: needs fio"]);
    }

    #[test]
    fn what_does_not_build_is_a_failure() {
        assert_eq!(read("", false).failed, 1);
        assert_eq!(read("", true), Outcome::default());
    }
}
