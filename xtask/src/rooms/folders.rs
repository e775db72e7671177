//! The folders of a crate, and what each imports of the others.
//!
//! A room is a folder beside `lib.rs`, or a file there. It imports whatever its code names by a path from
//! `crate::` on. Items that are compiled for tests alone count as tests. Comments may name anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Room;

/// Every room of the crate whose sources lie in `source`.
pub fn read(source: &Path) -> Result<Vec<Room>> {
    let mut rooms = BTreeMap::<String, Room>::new();
    for path in files(source)? {
        let inside = path.strip_prefix(source).expect("it was found there");
        let mut modules: Vec<_> = inside
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        modules.retain(|module| module != "mod");
        let name = modules.first().context("a file has a name")?.clone();
        if name == "lib" || name == "main" {
            continue;
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow::anyhow!("{}: not Rust: {error}", path.display()))?;
        let mut found = Found { deepest: modules.len(), ..Found::default() };
        found.read(tokens, false);
        if found.leaves {
            bail!(
                "{}: `super::` leads out of {name}; write the path from `crate::` on",
                inside.display()
            );
        }
        let room = rooms.entry(name.clone()).or_default();
        room.name = name.clone();
        room.imports.extend(found.imports.into_iter().filter(|import| *import != name));
        room.tests.extend(found.tests.into_iter().filter(|import| *import != name));
    }
    Ok(rooms.into_values().collect())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What a file names.
#[derive(Debug, Default)]
struct Found {
    imports: Vec<String>,
    tests: Vec<String>,
    /// How many modules the file's own one lies within, itself included.
    deepest: usize,
    /// Whether as many `super` as that, or more, follow each other somewhere.
    leaves: bool,
}

impl Found {
    fn read(&mut self, tokens: TokenStream, mut for_tests: bool) {
        let outer = for_tests;
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Punct(hash)
                    if hash.as_char() == '#' && is_test_attribute(tokens.get(at + 1)) =>
                {
                    for_tests = true;
                    at += 1;
                }
                TokenTree::Ident(ident) if *ident == "crate" && is_path(&tokens[at + 1..]) => {
                    self.note(tokens.get(at + 3), for_tests);
                    at += 2;
                }
                TokenTree::Ident(ident) if *ident == "super" => {
                    let mut ups = 1;
                    while is_path(&tokens[at + 1..])
                        && matches!(tokens.get(at + 3), Some(TokenTree::Ident(next)) if *next == "super")
                    {
                        ups += 1;
                        at += 3;
                    }
                    // `pub(super)` is no path; and a module for tests lies within the file's own one.
                    let names = is_path(&tokens[at + 1..]);
                    self.leaves |= names && ups >= self.deepest + usize::from(for_tests);
                }
                TokenTree::Group(group) => {
                    self.read(group.stream(), for_tests);
                    // An item ends with its braces.
                    if group.delimiter() == Delimiter::Brace {
                        for_tests = outer;
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => for_tests = outer,
                _ => {}
            }
            at += 1;
        }
    }

    /// What follows `crate::`.
    fn note(&mut self, next: Option<&TokenTree>, for_tests: bool) {
        let list = if for_tests { &mut self.tests } else { &mut self.imports };
        match next {
            Some(TokenTree::Ident(name)) => list.push(name.to_string()),
            Some(TokenTree::Group(group)) => {
                let mut begins = true;
                for token in group.stream() {
                    match &token {
                        TokenTree::Ident(name) if begins => list.push(name.to_string()),
                        _ => {}
                    }
                    begins = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
                }
            }
            _ => {}
        }
    }
}

/// Whether a path goes on here.
fn is_path(tokens: &[TokenTree]) -> bool {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
    tokens.len() >= 2 && tokens[..2].iter().all(is_colon)
}

fn is_test_attribute(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.to_string().replace(' ', "") == "[cfg(test)]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, deepest: usize) -> Found {
        let mut found = Found { deepest, ..Found::default() };
        found.read(text.parse().unwrap(), false);
        found
    }

    #[test]
    fn all_that_code_names_is_found_and_no_comment() {
        let text = "//! [`crate::a`]\nuse crate::b::X;\nuse crate::{c::{Y, Z}, d};\n\
                    fn f() -> crate::e::T { assert_eq!(crate::g::N, \"crate::h\"); }\n";
        let found = found(text, 1);
        assert_eq!(found.imports, ["b", "c", "d", "e", "g"]);
        assert!(found.tests.is_empty() && !found.leaves);
    }

    #[test]
    fn items_for_tests_are_tests_and_what_follows_them_is_not() {
        let text = "#[cfg(test)]\nuse crate::a::X;\nuse crate::b::X;\n\
                    #[cfg(test)]\nmod tests { use super::*; fn f() { crate::c::g(); } }\n\
                    fn f() { crate::d::g() }\n";
        let found = found(text, 1);
        assert_eq!(found.imports, ["b", "d"]);
        assert_eq!(found.tests, ["a", "c"]);
        assert!(!found.leaves);
    }

    #[test]
    fn a_path_that_leads_out_of_the_folder_is_seen() {
        assert!(found("use super::X;", 1).leaves);
        assert!(!found("use super::X; pub(super) fn f() {}", 2).leaves);
        assert!(found("use super::super::X;", 2).leaves);
        assert!(!found("#[cfg(test)] mod tests { use super::super::X; }", 2).leaves);
        assert!(found("#[cfg(test)] mod tests { use super::super::super::X; }", 2).leaves);
    }

    #[test]
    fn a_crate_is_read_by_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("lib.rs", "mod a; mod b; pub use crate::b::X;");
        write("a.rs", "pub struct Y;");
        write("b/mod.rs", "mod c; pub struct X;");
        write("b/c.rs", "use super::X; use crate::a::Y; use crate::b::Z;");
        let room = |name: &str, imports: &[&str]| Room {
            name: name.into(),
            imports: imports.iter().map(|name| (*name).to_owned()).collect(),
            ..Room::default()
        };
        assert_eq!(read(folder.path()).unwrap(), [room("a", &[]), room("b", &["a"])]);
        write("a.rs", "use super::b::X;");
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("a.rs: `super::` leads out of a"), "{error}");
    }
}
