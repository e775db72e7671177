//! The experiments that are shipped, within the program.

use std::path::Path;

use super::file::Experiment;
use super::mistake::{Mistake, nearest_hint};

/// The text of a file of `/experiments`.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../experiments/", $name, ".toml")))),*]
    };
}

/// Name and text of each, in the order in which they are listed.
pub const SHIPPED: &[(&str, &str)] = shipped![
    "waf-closed-forms",
    "disksim-means",
    "victim-policies",
    "sepbit-placement",
    "placement-recordings",
    "pacing",
    "mjolnir-fig2",
    "mjolnir-table2",
    "mjolnir-fig3",
    "mjolnir-table3",
    "mjolnir-breakdown",
    "mjolnir-tradeoff",
];

/// Whether an experiment is a shipped one, as it is shipped.
pub(super) fn is_shipped(experiment: &Experiment) -> bool {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == experiment.name);
    shipped.is_some_and(|(_, text)| {
        toml::from_str(text).is_ok_and(|as_it_is: Experiment| as_it_is == *experiment)
    })
}

/// An experiment's text, with what errors call it: a shipped one by its name, or a file by its
/// path.
///
/// # Errors
///
/// Neither is there, or the file cannot be read.
pub fn find(name_or_path: &str) -> Result<(String, String), Mistake> {
    if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
        return Ok((format!("experiments/{name}.toml"), (*text).to_owned()));
    }
    match std::fs::read_to_string(Path::new(name_or_path)) {
        Ok(text) => Ok((name_or_path.to_owned(), text)),
        // Who writes a path does not mean a name.
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && (name_or_path.ends_with(".toml") || name_or_path.contains('/')) =>
        {
            Err(Mistake(format!("there is no file {name_or_path}: look at the path")))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let hint = nearest_hint(name_or_path, SHIPPED.iter().map(|(name, _)| *name));
            Err(Mistake(format!(
                "no experiment is called {name_or_path:?}, and there is no file of that path{hint}; \
                 `mjolnir lab list` names them all"
            )))
        }
        Err(error) => Err(Mistake(format!("reading {name_or_path}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_nothing_is_no_name_with_a_slip() {
        for (asked, said) in [("nofile.toml", "no file nofile.toml"), ("a/b", "no file a/b")] {
            let why = find(asked).unwrap_err().to_string();
            assert!(why.contains(said) && !why.contains("nearest"), "{why}");
        }
        let why = find("pacin").unwrap_err().to_string();
        assert!(why.contains("\"pacing\" comes nearest"), "{why}");
    }
}
