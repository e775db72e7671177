//! `cargo xtask record`: makes the recordings that the repository ships anew.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, root, test};

/// What the other scripts share.
const STAGE: &str = "stage";

/// Makes the recordings of those names, or all, with a program built in release; without any name
/// and `all`, tells which there are. Whether all were made.
pub fn run(names: &[String], all: bool) -> Result<bool> {
    let root = &root();
    let folder = root.join("recordings/make");
    let known = scripts(&folder)?;
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        bail!("there is no recording {name:?}; there are {}", known.join(", "));
    }
    let wanted = if all { &known } else { names };
    if wanted.is_empty() {
        println!("{}", known.join("\n"));
        return Ok(true);
    }
    let built = cargo::command(root, &["build", "--release", "-p", "mjolnir-cli", "--bins"])
        .status()
        .context("cannot run cargo")?;
    if !built.success() {
        return Ok(false);
    }
    let program = test::release_folder(root)?.join("mjolnir");
    for name in wanted {
        let script = folder.join(format!("{name}.sh"));
        let made = Command::new(&script).env("MJOLNIR", &program).status();
        if !made.with_context(|| format!("cannot run {}", script.display()))?.success() {
            eprintln!("error: recording {name} failed");
            return Ok(false);
        }
    }
    println!(
        "put their figures into recordings/README.md: `cargo test -p mjolnir-cli --test cli \
         recordings` says which"
    );
    Ok(true)
}

/// Names of all recordings that can be made.
fn scripts(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "sh") && name != STAGE {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
