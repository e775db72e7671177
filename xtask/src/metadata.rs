//! What `cargo metadata` says about the workspace and all that it builds on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cargo;

/// The part of `cargo metadata`'s answer that the checks need.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    pub workspace_members: BTreeSet<String>,
    pub target_directory: PathBuf,
    /// Missing where cargo was asked for no dependencies.
    resolve: Option<Resolve>,
}

/// A crate, of the workspace or from elsewhere.
#[derive(Debug, Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub dependencies: Vec<Dependency>,
    pub targets: Vec<Target>,
}

/// Something that cargo builds from a package.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// `lib`, `bin`, `test`, `bench` and so on.
    pub kind: Vec<String>,
}

/// A line of a package's dependency tables.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `dev`, `build`, or nothing for an ordinary one.
    pub kind: Option<String>,
    /// Where a dependency on a crate of this workspace lies.
    pub path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Metadata {
    /// Asks cargo; `arguments` choose features and platforms.
    pub fn load(root: &Path, arguments: &[&str]) -> Result<Metadata> {
        let mut command = cargo::command(root, &["metadata", "--format-version", "1"]);
        command.args(arguments);
        let text = cargo::output(command)?;
        serde_json::from_str(&text).context("cargo metadata has a shape that this cannot read")
    }

    /// The workspace's own crates.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Everything that is built into `member`: it, and all it needs to build and run.
    pub fn built_into(&self, member: &str) -> BTreeSet<&Package> {
        let packages: BTreeMap<_, _> =
            self.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let nodes: BTreeMap<_, _> = self
            .resolve
            .iter()
            .flat_map(|resolve| &resolve.nodes)
            .map(|node| (node.id.as_str(), node))
            .collect();
        let mut waiting: Vec<&str> = self
            .members()
            .filter(|package| package.name == member)
            .map(|package| package.id.as_str())
            .collect();
        let mut found = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if !packages.get(id).is_some_and(|&package| found.insert(package)) {
                continue;
            }
            let edges = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            let needed = edges.filter(|edge| {
                edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
            });
            waiting.extend(needed.map(|edge| edge.pkg.as_str()));
        }
        found
    }
}

impl PartialEq for Package {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Package {}

impl PartialOrd for Package {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Package {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.name, &self.version, &self.id).cmp(&(&other.name, &other.version, &other.id))
    }
}
