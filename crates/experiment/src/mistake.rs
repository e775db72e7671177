//! What is wrong with an experiment, in one sentence with file and line.

use serde::de::DeserializeOwned;
use toml::Table;
use toml::de::{DeTable, DeValue};

/// A mistake in an experiment file, or in what was asked of it: one sentence with file and line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mistake(pub String);

/// An experiment file's name and text, to say where a mistake is.
pub(super) struct Place<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Place<'_> {
    /// A mistake at a dotted key, on the line where that (or the nearest table above it) is
    /// written.
    pub fn at(&self, key: &str, what: impl std::fmt::Display) -> Mistake {
        match self.line(key) {
            Some(line) => Mistake(format!("{} line {line}: {what}", self.name)),
            None => Mistake(format!("{}: {what}", self.name)),
        }
    }

    /// A mistake that a sentence about the value of `key` tells of: on the line that has what it quotes, or else
    /// where the dotted `field` is written.
    pub fn of(&self, key: &str, field: &str, why: &str) -> Mistake {
        match line_with(self.text, key, why) {
            Some(line) => Mistake(format!("{} line {line}: {why}", self.name)),
            None => self.at(field, why),
        }
    }

    /// The line where a dotted key, or the nearest table above it, is written.
    pub fn line(&self, key: &str) -> Option<usize> {
        line_of(self.text, key)
    }

    /// What TOML or the types found wrong.
    pub fn toml(&self, error: &toml::de::Error) -> Mistake {
        let what = sentence(error);
        match error.span() {
            Some(span) => {
                let line = line_at(self.text, span.start);
                Mistake(format!("{} line {line}: {what}", self.name))
            }
            None => Mistake(format!("{}: {what}", self.name)),
        }
    }
}

/// The configuration of a run as a type, with errors fit for [`Kind::check`](crate::Kind::check):
/// an unknown field is named together with the nearest that there is.
pub fn parse_configuration<T: DeserializeOwned>(table: &Table) -> Result<T, String> {
    table.clone().try_into().map_err(|error: toml::de::Error| sentence(&error))
}

/// The name that differs least, if there is any.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names.into_iter().min_by_key(|known| strsim::damerau_levenshtein(known, name))
}

/// "; NAME comes nearest", and all there are where even that is far.
pub fn nearest_hint<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let Some(known) = nearest(name, names.iter().copied()) else { return String::new() };
    // One letter in two is not a slip any more.
    let letters = known.chars().count().max(name.chars().count());
    match 2 * strsim::damerau_levenshtein(known, name) <= letters {
        true => format!("; {known:?} comes nearest"),
        false => format!("; {known:?} comes nearest (there are: {})", names.join(", ")),
    }
}

/// An error of `toml` in one sentence, without its picture of the line.
fn sentence(error: &toml::de::Error) -> String {
    let message = error.message().trim().replace('\n', ", ");
    // Without a text there is the path to the table, in the last line.
    let shown = error.to_string();
    let within = shown.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let place = within.map(|path| format!("{path}: ")).unwrap_or_default();
    if let Some(what) = of_wrong_type(&message) {
        return format!("{place}{what}");
    }
    let Some((wrong, known)) = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once("`, expected "))
        .or_else(|| message.strip_prefix("unknown variant `")?.split_once("`, expected "))
    else {
        return format!("{place}{message}");
    };
    let what = if message.starts_with("unknown field") { "field" } else { "word" };
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    format!("{place}there is no {what} {wrong:?}{}", nearest_hint(wrong, names))
}

/// What to write instead of a value of a wrong type, in the words of TOML and not of Rust.
fn of_wrong_type(message: &str) -> Option<String> {
    if message.starts_with("data did not match any variant of untagged enum") {
        return Some("write a number, or a text with a unit such as \"64K\"".to_owned());
    }
    let rest = ["invalid type: ", "invalid value: "]
        .into_iter()
        .find_map(|before| message.strip_prefix(before))?;
    let (found, expected) = rest.split_once(", expected ")?;
    let write = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "NonZero<u32>" => "a whole number from 1 to 4294967295",
        "u64" | "usize" => "a whole number, not below 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" => "a text, in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list, in square brackets",
        "a map" => "a table",
        "variant identifier" | "string or map" => "one of its words, in quotes",
        table if table.starts_with("struct ") => "a table",
        words if words.starts_with("enum ") => "one of its words, in quotes",
        other => other,
    };
    // What follows the kind is what was written.
    let (kind, rest) = found.split_once(' ').unwrap_or((found, ""));
    let kind = match kind {
        "boolean" => "the word",
        "map" => "a table",
        "sequence" => "a list",
        other => other,
    };
    let found = format!("{kind} {rest}");
    let found = found.trim_end();
    Some(format!("{found} cannot stand here; write {write}"))
}

fn line_at(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// The line on which a sentence finds fault: that of a key that it quotes and that is none, or of a key with a
/// value that it quotes.
fn line_with(text: &str, key: &str, why: &str) -> Option<usize> {
    let quoted = why.split('"').nth(1).filter(|quoted| !quoted.is_empty());
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    // What follows the first colon may be advice, with numbers of its own.
    let said = why.split(": ").next().unwrap_or_default();
    let is_number =
        |word: &&str| !word.ends_with(char::is_alphabetic) && word.parse::<f64>().is_ok();
    let number = said.split([' ', ',', ';', ':']).find(is_number);
    let key = key.rsplit('.').next().unwrap_or(key);
    // Whether a key is written on a line: as a word of its own, and what follows is its value.
    let names = |line: &str, key: &str| {
        line.match_indices(key).any(|(at, _)| {
            let after = line[at + key.len()..].trim_start_matches(['"', '\'']).trim_start();
            !line[..at].ends_with(is_letter) && after.starts_with('=')
        })
    };
    let finds_fault = |line: &str| match quoted {
        Some(quoted) if why.contains("no field") => names(line, quoted),
        Some(quoted) => {
            let written = ['"', '\''].map(|mark| format!("{mark}{quoted}{mark}"));
            names(line, key) && written.iter().any(|text| line.contains(text))
        }
        None => number.is_some_and(|number| {
            names(line, key) && line.split(['[', ',', ']', '=', ' ']).any(|word| word == number)
        }),
    };
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or(line));
    (1..).zip(lines).find_map(|(number, line)| finds_fault(line).then_some(number))
}

/// The line where a dotted key is written, or the nearest table above it. A number names an
/// element of a list of tables: `figure.0.x`.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut line = None;
    let mut rest = key;
    let mut table = table.get_ref();
    'down: while !rest.is_empty() {
        // Keys may hold dots of their own, in quotes: the longest that fits comes first.
        let ends = rest.match_indices('.').map(|(at, _)| at).chain([rest.len()]);
        for end in ends.collect::<Vec<_>>().into_iter().rev() {
            let found = table.iter().find(|(name, _)| name.get_ref() == &rest[..end]);
            let Some((name, value)) = found else { continue };
            line = Some(line_at(text, name.span().start));
            rest = rest[end..].trim_start_matches('.');
            let mut value = value;
            if let DeValue::Array(list) = value.get_ref() {
                let (number, after) = rest.split_once('.').unwrap_or((rest, ""));
                let Some(element) = number.parse().ok().and_then(|n: usize| list.get(n)) else {
                    break 'down;
                };
                line = Some(line_at(text, element.span().start));
                (value, rest) = (element, after);
            }
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break 'down,
            }
            continue 'down;
        }
        break;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"a\"\n[configuration.drive]\nvictim = \"greedy\"\n\
                        [sweep]\n\"drive.spare\" = [0.1]\n[[figure]]\nx = \"y\"\n[[figure]]\nx = \"z\"\n";

    #[test]
    fn keys_have_lines() {
        for (key, line) in [
            ("name", Some(1)),
            ("configuration.drive.victim", Some(3)),
            ("configuration.drive.missing", Some(2)),
            ("sweep.drive.spare", Some(5)),
            ("figure.1.x", Some(9)),
            ("nothing", None),
        ] {
            assert_eq!(line_of(TEXT, key), line, "{key}");
        }
    }

    #[test]
    fn a_sentence_has_the_line_of_what_it_quotes() {
        let text = "pages = 64 # \"gready\"\n[sweep]\nspare = [0.1, 0.2]\npolicy = [\n  { victim = \"gready\" },\n]\n\
                    [quick]\nconfiguration.erase_blokcs = 1\nsweep.spare = [0.1, 2.8]\n";
        for (key, why, line) in [
            ("policy.victim", "policy.victim: no victim is called \"gready\"", Some(5)),
            (
                "there",
                "there is no field \"erase_blokcs\"; \"erase_blocks\" comes nearest",
                Some(8),
            ),
            ("spare", "spare = 2.8: write a part of 1", Some(9)),
            ("spare", "spare: write 0.2 or more", None),
            ("spare", "spare: write a part of 1", None),
            ("pages", "pages: text \"a\" cannot stand here", None),
        ] {
            assert_eq!(line_with(text, key, why), line, "{why}");
        }
    }

    #[test]
    fn unknown_words_name_the_nearest() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code)] // Only what is wrong with it matters.
        struct Outer {
            drive: Inner,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code)]
        struct Inner {
            victim: String,
            spare: f64,
        }
        let wrong: Table = "drive.victin = 1".parse().unwrap();
        let said = parse_configuration::<Outer>(&wrong).unwrap_err();
        assert!(said.contains("there is no field \"victin\"; \"victim\" comes nearest"), "{said}");
        assert!(!said.contains("there are"), "{said}");
        let far: Table = "drive.zone_blocks = 1".parse().unwrap();
        let said = parse_configuration::<Outer>(&far).unwrap_err();
        assert!(said.contains("(there are: victim, spare)"), "{said}");
        let wrong: Table = "drive.victim = 1\ndrive.spare = 0.1".parse().unwrap();
        let said = parse_configuration::<Outer>(&wrong).unwrap_err();
        assert!(said.starts_with("drive.victim: ") && said.contains("write a text"), "{said}");
        for (wrong, right) in [("drive = true", "drive: "), ("drive = true", "write a table")] {
            let said = parse_configuration::<Outer>(&wrong.parse().unwrap()).unwrap_err();
            assert!(said.contains(right) && !said.contains("struct"), "{said}");
        }
    }
}
