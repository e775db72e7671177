//! Policies as people write them: `dac`, `dac:classes=4`, or `{ name = "dac", classes = 4 }`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{pacing, placement, read_plan, victim};

/// A policy's name and values of its parameters, as they were written: whether there is such a policy is
/// not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The policy's name.
    pub name: String,
    /// Parameters and their values, in the order in which they were written.
    pub parameters: Vec<(String, String)>,
}

/// It is no policy's text: `name`, or `name:parameter=value,parameter=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl FromStr for Written {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let Some((name, rest)) = text.split_once(':') else {
            return Ok(Written { name: text.to_owned(), parameters: Vec::new() });
        };
        let pair = |text: &str| {
            let (name, value) = text.split_once('=').ok_or(Malformed)?;
            let (name, value) = (name.trim(), value.trim());
            match name.is_empty() || value.is_empty() {
                true => Err(Malformed),
                false => Ok((name.to_owned(), value.to_owned())),
            }
        };
        let parameters = rest.split(',').map(pair).collect::<Result<_, _>>()?;
        Ok(Written { name: name.to_owned(), parameters })
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (number, (name, value)) in self.parameters.iter().enumerate() {
            let before = if number == 0 { ':' } else { ',' };
            write!(f, "{before}{name}={value}")?;
        }
        Ok(())
    }
}

/// Policies of a list with commas between: a comma also stands between a policy's parameters, so that what
/// has a value and no name of its own belongs to the policy before.
pub fn listed(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in text.split(',') {
        match all.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => all.push(part.to_owned()),
        }
    }
    all
}

/// The shortest text of a policy of any kind: parameters that have their default are left out. `None` if
/// there is no such policy, or it cannot have such parameters. No two kinds have a policy of one name.
pub fn shortest(text: &str) -> Option<String> {
    let kinds = [placement::shortest, victim::shortest, pacing::shortest, read_plan::shortest];
    kinds.into_iter().find_map(|shortest| shortest(text).ok())
}

/// Reads a policy that is written as a text or as a table, and returns its [shortest](shortest) text; if
/// there is no such policy, the text as it is, for whoever knows which kind it should be of.
///
/// For fields of a configuration: `#[serde(deserialize_with = "mjolnir_policy::text_or_table")]`.
///
/// # Errors
///
/// It is neither, or a table without a name.
pub fn text_or_table<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = from.deserialize_any(TextOrTable)?;
    Ok(shortest(&text).unwrap_or(text))
}

/// The word that stands for a value which may be a policy, as a text or as a table; `None` if it is neither.
pub fn word<'de>(value: impl Deserializer<'de>) -> Option<String> {
    text_or_table(value).ok().filter(|text| shortest(text).is_some())
}

struct TextOrTable;

impl<'de> Visitor<'de> for TextOrTable {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, in quotes, or a table with a policy's `name` and its parameters")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<String, A::Error> {
        let (mut name, mut parameters) = (None, Vec::new());
        while let Some(key) = table.next_key::<String>()? {
            let Scalar(value) = table.next_value()?;
            if [&key, &value].iter().any(|text| text.contains([':', ',', '='])) {
                let why = format!("{key} = {value:?}: write a name or a number alone");
                return Err(A::Error::custom(why));
            }
            match key.as_str() {
                "name" => name = Some(value),
                "label" => {}
                _ => parameters.push((key, value)),
            }
        }
        let name = name.ok_or_else(|| {
            A::Error::custom("a policy's table says its `name`, as { name = \"dac\", classes = 4 }")
        })?;
        Ok(Written { name, parameters }.to_string())
    }
}

/// A word or a number, as text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyScalar).map(Scalar)
    }
}

struct AnyScalar;

impl Visitor<'_> for AnyScalar {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
