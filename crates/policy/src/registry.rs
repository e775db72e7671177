//! Policies by name, with an error that helps who mistyped one.

/// No policy has that name. The message names the nearest one and all there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} policy is called {name:?}; {nearest:?} comes nearest (there are: {})", names.join(", "))]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
    /// What sort of policy: `victim`, `placement`, `read plan` or `pacing`.
    pub kind: &'static str,
    /// The name that differs least from it.
    pub nearest: &'static str,
    /// Every name there is, the default first.
    pub names: Vec<&'static str>,
}

/// A line of a registry: a policy's name and how to make one.
pub(crate) type Entry<P> = (&'static str, fn() -> Box<P>);

/// How to make the policy called `name`.
pub(crate) fn find<Make: Copy>(
    kind: &'static str,
    entries: &[(&'static str, Make)],
    name: &str,
) -> Result<Make, UnknownPolicy> {
    if let Some((_, make)) = entries.iter().find(|(known, _)| *known == name) {
        return Ok(*make);
    }
    let names: Vec<_> = entries.iter().map(|(known, _)| *known).collect();
    let nearest = names
        .iter()
        .min_by_key(|known| strsim::damerau_levenshtein(known, name))
        .expect("a registry has at least its default");
    Err(UnknownPolicy { name: name.to_owned(), kind, nearest, names })
}
