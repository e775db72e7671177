//! `cargo xtask test`: everything that a change must pass.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::metadata::Metadata;
use crate::steps::{Outcome, Steps};
use crate::{Check, cargo, guest, house, licences, rooms, root, tools};

/// How to run the checks.
#[derive(Args)]
pub struct Options {
    /// Install no programs; tests that lack one are skipped by name.
    #[arg(long)]
    no_install: bool,
    /// Fail tests that lack a program, instead of skipping them.
    #[arg(long)]
    require_tools: bool,
    /// Leave out what takes long: the release build, documentation and the simulator. Tests
    /// against real clients then use the debug build.
    #[arg(long)]
    quick: bool,
    /// Run the tests, too, that take minutes though optimized.
    #[arg(long)]
    long: bool,
    /// Seeds that the simulator runs.
    #[arg(long, value_name = "COUNT", default_value_t = 300)]
    seeds: u32,
}

/// Packages whose programs ship or measure. They are always built together: built apart, what
/// they share would be built twice with different features.
const PROGRAMS: &[&str] =
    &["build", "--release", "-p", "mjolnir-cli", "-p", "mjolnir-sim", "--bins"];

/// What `cargo test` leaves out for its length: figures of theory and of a peer.
const LONG_TESTS: &[&str] = &[
    "test",
    "--release",
    "-p",
    "mjolnir-flash",
    "-p",
    "mjolnir-policy",
    "--test",
    "waf",
    "--test",
    "placement_figures",
    "--",
    "--ignored",
    "--show-output",
];

/// The feature that needs the system's OpenSSL.
const TLS: [&str; 2] = ["--features", "mjolnir-cli/tls"];

/// How the names of tests begin that need a program with TLS.
const TLS_TESTS: &str = "real_tls_";

/// Names the program that tests drive, where it is not the one that they were built with.
const PROGRAM: &str = "MJOLNIR_BIN";

/// How many tests of a program run at a time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Runs all steps; whether all passed.
pub fn run(options: &Options) -> Result<bool> {
    let root = &root();
    let cargo = |arguments: &[&str]| cargo::command(root, arguments);
    let mut steps = Steps::default();

    steps.run("format", || cargo::run(cargo(&["fmt", "--all", "--check"])));
    let checks: [(_, Check); 3] =
        [("rooms", rooms::check), ("licences", licences::check), ("house", house::check)];
    for (name, check) in checks {
        steps.run(name, || check(root));
    }
    steps.run("tools", || Ok(tools::provide(!options.no_install)));
    // Most of that is one large crate after the other on one processor: beside it, what comes before its
    // turn takes little more time. It has another build folder.
    let building = (!options.quick).then(|| cargo::begin(cargo(PROGRAMS)));
    steps.run("lints", || {
        cargo::run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });

    // Tests are built with TLS where that can be built, so that nothing is built twice.
    let no_tls = tools::missing_for_tls();
    let test = |arguments: &[&str]| {
        let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
        if no_tls.is_none() {
            command.args(TLS);
        }
        command.args(arguments);
        // Many tests wait more than they work.
        if std::env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, (2 * threads()).to_string());
        }
        if options.require_tools {
            command.env("MJOLNIR_REQUIRE_TOOLS", "1");
        }
        command
    };
    // Builds most of what the others need, too.
    steps.run("doc tests", || cargo::run_tests(test(&["--doc"])));

    let quick = || Ok(Outcome::skip("left out by --quick"));
    let mut programs = None;
    if let Some(building) = building {
        steps.run("documentation", || {
            let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
            command.env("RUSTDOCFLAGS", "-D warnings");
            cargo::run(command)
        });
        steps.run("release build", || {
            let outcome = building?.end()?;
            if outcome.passed() {
                programs = Some(release_folder(root)?);
            }
            Ok(outcome)
        });
        steps.run("simulator", || match &programs {
            Some(folder) => cargo::run(simulator(folder, options.seeds)),
            None => Ok(Outcome::fail("it was not built")),
        });
    } else {
        steps.run("documentation", quick);
        steps.run("release build", quick);
        steps.run("simulator", quick);
    }

    steps.run("benches", || {
        // Run by `cargo test`, a benchmark takes each of its measurements once, at a small size.
        let metadata = Metadata::load(root, &["--no-deps"])?;
        let mut targets = metadata.members().flat_map(|package| &package.targets);
        if !targets.any(|target| target.kind.iter().any(|kind| kind == "bench")) {
            return Ok(Outcome::skip("there are none"));
        }
        cargo::run(test(&["--bench", "*"]))
    });
    // They come last: what they print is what one looks for first. The program that they drive is the
    // one that ships, without TLS.
    steps.run("tests", || {
        let mut command = test(&["--lib", "--bins", "--tests", "--", "--show-output"]);
        if let Some(folder) = &programs {
            command.env(PROGRAM, folder.join("mjolnir"));
        }
        command.args(["--skip", TLS_TESTS]);
        cargo::run_tests(command)
    });
    steps.run("TLS", || match &no_tls {
        Some(missing) if options.require_tools => Ok(Outcome::fail(format!("needs {missing}"))),
        Some(missing) => Ok(Outcome::skip(format!("needs {missing}"))),
        None => secured(&cargo, test(&["--test", "cli", "--", "--show-output"])),
    });
    steps.run("long tests", || match options.long {
        true => cargo::run_tests(cargo(LONG_TESTS)),
        false => Ok(Outcome::skip("--long runs them")),
    });
    steps.run("tests as root", || {
        // Loop devices and mounts: `cargo test` leaves these out for everyone.
        if !tools::is_root() {
            return Ok(Outcome::skip("needs root, to make loop devices and mount file systems"));
        }
        // As the other steps do, for the whole workspace, so that nothing is built for it alone.
        cargo::run_tests(test(&["--test", "privileged", "--", "--ignored"]))
    });
    steps.run("zoned devices", || match &programs {
        _ if options.quick => quick(),
        Some(folder) => {
            let program = folder.join("mjolnir");
            guest::boot(root, &program, test(&[]), !options.no_install)
        }
        None => Ok(Outcome::skip("the program was not built")),
    });

    println!("\n{}", steps.report());
    Ok(steps.passed())
}

/// Lints the feature `tls`, which the other steps leave out, and tests the program with it.
fn secured(cargo: &impl Fn(&[&str]) -> Command, mut tests: Command) -> Result<Outcome> {
    let mut lints = cargo(&["clippy", "-p", "mjolnir-host", "-p", "mjolnir-cli", "--all-targets"]);
    lints.args(TLS).args(["--", "-D", "warnings"]);
    let outcome = cargo::run(lints)?;
    if !outcome.passed() {
        return Ok(outcome);
    }
    tests.args([TLS_TESTS, "listening::", "--skip", "without_tls"]).env_remove(PROGRAM);
    cargo::run_tests(tests)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `cargo xtask sim`: whether the simulator ended well.
pub fn simulate(arguments: &[String]) -> Result<bool> {
    let mut command = cargo::command(&root(), &["run", "--release", "-p", "mjolnir-sim"]);
    command.args(["--bin", "sim", "--"]).args(arguments);
    Ok(command.status().context("cannot run cargo")?.success())
}

fn simulator(folder: &Path, seeds: u32) -> Command {
    let mut command = Command::new(folder.join("sim"));
    command.args(["--seeds", &seeds.to_string()]);
    command
}

/// Where release builds lie.
pub fn release_folder(root: &Path) -> Result<PathBuf> {
    Ok(Metadata::load(root, &["--no-deps"])?.target_directory.join("release"))
}
