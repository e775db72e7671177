//! Policies by name, with errors that help who mistyped one.

use crate::parameters::{Arguments, Fault, Parameter};
use crate::written::{Malformed, Written};

/// There is no such policy, or it cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy has that name. The message names the nearest one and all there are.
    #[error("no {kind} policy is called {name:?}; {nearest:?} comes nearest (there are: {})", names.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What sort of policy: `victim`, `placement`, `read plan` or `pacing`.
        kind: &'static str,
        /// The name that differs least from it.
        nearest: &'static str,
        /// Every name there is, the default first.
        names: Vec<&'static str>,
    },
    /// The text is no policy's.
    #[error(
        "{kind} policy {text:?}: write NAME, or NAME:PARAMETER=VALUE with commas between parameters"
    )]
    Malformed {
        /// What was asked for.
        text: String,
        /// What sort of policy.
        kind: &'static str,
    },
    /// The policy cannot be set so.
    #[error("{kind} policy {text:?}: {why}")]
    Parameter {
        /// What was asked for.
        text: String,
        /// What sort of policy.
        kind: &'static str,
        /// What is wrong, and what may be written.
        why: String,
    },
}

/// A line of a registry: a policy's name, what of it can be set, and how to make one.
pub(crate) struct Entry<Make: 'static> {
    pub name: &'static str,
    pub parameters: &'static [Parameter],
    pub make: Make,
}

impl<Make> Entry<Make> {
    pub const fn new(name: &'static str, parameters: &'static [Parameter], make: Make) -> Self {
        Entry { name, parameters, make }
    }
}

/// A policy of a registry, and how it is set.
pub(crate) struct Found<Make: 'static> {
    pub entry: &'static Entry<Make>,
    pub arguments: Arguments,
}

impl<Make> Found<Make> {
    /// The shortest text that means it.
    pub fn shortest(&self) -> String {
        let told = self.arguments.told();
        let parameters = told.map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        Written { name: self.entry.name.to_owned(), parameters }.to_string()
    }
}

/// The policy that a text asks for.
pub(crate) fn find<Make>(
    kind: &'static str,
    entries: &'static [Entry<Make>],
    text: &str,
) -> Result<Found<Make>, PolicyError> {
    let malformed = |Malformed| PolicyError::Malformed { text: text.to_owned(), kind };
    let Written { name, parameters } = text.parse().map_err(malformed)?;
    let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        let nearest = nearest(&name, &names).expect("a registry has at least its default");
        return Err(PolicyError::Unknown { name, kind, nearest, names });
    };
    let mut arguments = Arguments::new(entry.parameters);
    for (parameter, value) in &parameters {
        arguments.say(parameter, value).map_err(|fault| PolicyError::Parameter {
            text: text.to_owned(),
            kind,
            why: why(entry, fault, parameter, value),
        })?;
    }
    Ok(Found { entry, arguments })
}

/// What is wrong with a parameter, and what may be written.
fn why<Make>(entry: &Entry<Make>, fault: Fault, parameter: &str, value: &str) -> String {
    let Entry { name, parameters, .. } = entry;
    match fault {
        Fault::Value(of) => {
            format!("{parameter} = {value} cannot be; write {}: {}", of.range(), of.about)
        }
        Fault::Twice => format!("{parameter} is said twice"),
        Fault::Unknown if parameters.is_empty() => {
            format!("{name} has no parameter {parameter:?}, and no other")
        }
        Fault::Unknown => {
            let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
            let nearest = nearest(parameter, &names).expect("there are some");
            let known: Vec<_> = parameters
                .iter()
                .map(|known| format!("{}, {}", known.name, known.range()))
                .collect();
            format!(
                "{name} has no parameter {parameter:?}; {nearest:?} comes nearest (there are: {})",
                known.join("; ")
            )
        }
    }
}

fn nearest(name: &str, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().min_by_key(|known| strsim::damerau_levenshtein(known, name))
}
