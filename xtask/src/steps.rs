//! Named steps that all run, and the table of how they went.

use std::time::{Duration, Instant};

use anyhow::Result;

/// What a step found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tests or checks that passed.
    pub passed: u64,
    /// Tests or checks that failed.
    pub failed: u64,
    /// What was left out, by name and with the reason.
    pub skipped: Vec<String>,
    /// What failed, by name.
    pub failures: Vec<String>,
    /// What is worth a look and fails nothing.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// A single check that passed.
    pub fn pass() -> Self {
        Outcome { passed: 1, ..Outcome::default() }
    }

    /// A single check that failed.
    pub fn fail(why: impl Into<String>) -> Self {
        Outcome { failed: 1, failures: vec![why.into()], ..Outcome::default() }
    }

    /// A step left out on purpose.
    pub fn skip(why: impl Into<String>) -> Self {
        Outcome { skipped: vec![why.into()], ..Outcome::default() }
    }

    /// One check that passes if nothing stands in `failures`.
    pub fn of(failures: Vec<String>, warnings: Vec<String>) -> Self {
        let failed = u64::from(!failures.is_empty());
        Outcome { passed: 1 - failed, failed, failures, warnings, skipped: Vec::new() }
    }

    /// This check and another one.
    pub fn and(mut self, other: Outcome) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.warnings.extend(other.warnings);
        self.skipped.extend(other.skipped);
        self
    }

    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.failed == 0
    }

    /// Prints failures and warnings.
    pub fn print(self) -> Self {
        for failure in &self.failures {
            println!("error: {failure}");
        }
        for warning in &self.warnings {
            println!("warning: {warning}");
        }
        self
    }

    fn verdict(&self) -> &'static str {
        match (self.failed, self.passed, self.skipped.len()) {
            (1.., _, _) => "FAIL",
            (0, 0, 1..) => "SKIP",
            _ => "PASS",
        }
    }
}

struct Done {
    name: &'static str,
    time: Duration,
    outcome: Outcome,
}

/// Runs steps and remembers how they went.
#[derive(Default)]
pub struct Steps {
    done: Vec<Done>,
}

impl Steps {
    /// Runs a step under its name. An error is a failure; later steps run all the same.
    pub fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<Outcome>) {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step().unwrap_or_else(|error| Outcome::fail(format!("{error:#}"))).print();
        let time = start.elapsed();
        println!("== {name}: {} in {:.1} s", outcome.verdict(), time.as_secs_f64());
        self.done.push(Done { name, time, outcome });
    }

    /// The table, what was skipped and what failed, and the closing line.
    pub fn report(&self) -> String {
        let mut text = String::new();
        let width = self.done.iter().map(|done| done.name.len()).max().unwrap_or(0);
        let mut total = Duration::ZERO;
        for Done { name, time, outcome } in &self.done {
            total += *time;
            let verdict = outcome.verdict();
            let detail = match outcome {
                Outcome { passed: 1, failed: 0, .. } => String::new(),
                Outcome { passed: 0, failed: 0, skipped, .. } => skipped.join("; "),
                Outcome { passed, failed, .. } => format!("{passed} passed, {failed} failed"),
            };
            let seconds = time.as_secs_f64();
            let line = format!("{name:width$}  {seconds:8.1} s  {verdict}  {detail}");
            text += &format!("{}\n", line.trim_end());
        }
        text += &format!("{:width$}  {:8.1} s\n", "together", total.as_secs_f64());
        for (title, pick) in [
            ("skipped", (|outcome| &outcome.skipped) as fn(&Outcome) -> &Vec<String>),
            ("warning", |outcome| &outcome.warnings),
            ("failed", |outcome| &outcome.failures),
        ] {
            for Done { name, outcome, .. } in &self.done {
                for line in pick(outcome) {
                    text += &format!("{title}: {name}: {line}\n");
                }
            }
        }
        let sum = |count: fn(&Outcome) -> u64| -> u64 {
            self.done.iter().map(|done| count(&done.outcome)).sum()
        };
        let passed = sum(|outcome| outcome.passed);
        let failed = sum(|outcome| outcome.failed);
        let skipped = sum(|outcome| outcome.skipped.len() as u64);
        text += &format!("{passed} passed, {failed} failed, {skipped} skipped");
        text
    }

    /// Whether every step passed.
    pub fn passed(&self) -> bool {
        self.done.iter().all(|done| done.outcome.passed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_and_the_closing_line_sums_them() {
        let mut steps = Steps::default();
        steps.run("one", || Ok(Outcome::pass()));
        steps.run("two", || anyhow::bail!("the disk is full"));
        steps.run("three", || Ok(Outcome::skip("asked to be quick")));
        let counted = Outcome {
            passed: 40,
            failed: 2,
            skipped: vec!["ext4: needs nbdfuse".into()],
            failures: vec!["a".into(), "b".into()],
            warnings: vec!["slow".into()],
        };
        steps.run("four", || Ok(counted));
        assert!(!steps.passed());
        let report = steps.report();
        assert!(report.contains("failed: two: the disk is full\n"), "{report}");
        assert!(report.contains("skipped: four: ext4: needs nbdfuse\n"), "{report}");
        assert!(report.contains("40 passed, 2 failed\n"), "{report}");
        assert_eq!(report.lines().last(), Some("41 passed, 3 failed, 2 skipped"));
        let verdicts: Vec<&str> =
            report.lines().take(4).filter_map(|line| line.split_whitespace().nth(3)).collect();
        assert_eq!(verdicts, ["PASS", "FAIL", "SKIP", "FAIL"]);
    }
}
