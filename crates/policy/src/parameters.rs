//! What of a policy can be set: its parameters, each with a range and a default.

use std::fmt;

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Number {
    /// A whole number.
    Whole(u64),
    /// Any other.
    Real(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(f),
            Number::Real(number) => number.fmt(f),
        }
    }
}

/// A parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// What it is called.
    pub name: &'static str,
    /// What it says, in a few words, with its unit.
    pub about: &'static str,
    /// The least that it may be; of the sort that all its values are.
    pub least: Number,
    /// The most that it may be.
    pub most: Number,
    /// What it is if it is not said. `None`: whoever makes the policy has a value for it, as the run's
    /// seed.
    pub default: Option<Number>,
}

impl Parameter {
    /// A whole number from `least` to `most`.
    pub(crate) const fn whole(
        name: &'static str,
        about: &'static str,
        (least, most): (u64, u64),
        default: u64,
    ) -> Self {
        assert!(least <= default && default <= most);
        let default = Some(Number::Whole(default));
        Parameter { name, about, least: Number::Whole(least), most: Number::Whole(most), default }
    }

    /// A number from `least` to `most`.
    pub(crate) const fn real(
        name: &'static str,
        about: &'static str,
        (least, most): (f64, f64),
        default: f64,
    ) -> Self {
        assert!(least <= default && default <= most);
        let default = Some(Number::Real(default));
        Parameter { name, about, least: Number::Real(least), most: Number::Real(most), default }
    }

    /// What lots are drawn from.
    pub(crate) const SEED: Parameter = Parameter {
        name: "seed",
        about: "what lots are drawn from",
        least: Number::Whole(0),
        most: Number::Whole(u64::MAX),
        default: None,
    };

    /// The value that a text says; `None` if it is no number of that sort, or beyond the range.
    fn parse(&self, text: &str) -> Option<Number> {
        let number = match self.least {
            Number::Whole(_) => Number::Whole(text.parse().ok()?),
            // Nought has no sign here.
            Number::Real(_) => Number::Real(text.parse::<f64>().ok()? + 0.0),
        };
        (self.least <= number && number <= self.most).then_some(number)
    }

    /// What may be written for it: `a whole number from 1 to 64 (6 if not said)`.
    pub fn range(&self) -> String {
        let sort = match self.least {
            Number::Whole(_) => "a whole number",
            Number::Real(_) => "a number",
        };
        let range = match self.most {
            Number::Whole(u64::MAX) => format!("{sort} from {}", self.least),
            most => format!("{sort} from {} to {most}", self.least),
        };
        match self.default {
            Some(default) => format!("{range} ({default} if not said)"),
            None => format!("{range} (the run's if not said)"),
        }
    }
}

impl fmt::Display for Parameter {
    /// `classes=6`, with the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.default {
            Some(default) => write!(f, "{}={default}", self.name),
            None => write!(f, "{}=N", self.name),
        }
    }
}

/// Values of a policy's parameters, as far as they were said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// In the order in which the policy lists its parameters.
    values: Vec<(&'static Parameter, Option<Number>)>,
}

/// What is wrong with a parameter.
pub(crate) enum Fault {
    /// The policy takes none of that name.
    Unknown,
    /// It was said before.
    Twice,
    /// It cannot have that value.
    Value(&'static Parameter),
}

impl Arguments {
    /// Nothing was said of these.
    pub fn new(parameters: &'static [Parameter]) -> Self {
        Arguments { values: parameters.iter().map(|parameter| (parameter, None)).collect() }
    }

    /// Takes the value that a text says.
    pub fn say(&mut self, name: &str, text: &str) -> Result<(), Fault> {
        let known = self.values.iter_mut().find(|(parameter, _)| parameter.name == name);
        let (parameter, value) = known.ok_or(Fault::Unknown)?;
        if value.is_some() {
            return Err(Fault::Twice);
        }
        *value = Some(parameter.parse(text).ok_or(Fault::Value(parameter))?);
        Ok(())
    }

    fn get(&self, name: &str) -> Option<Number> {
        let known = self.values.iter().find(|(parameter, _)| parameter.name == name);
        let (parameter, value) = known.expect("a policy's entry lists each of its parameters");
        value.or(parameter.default)
    }

    /// The value of a parameter that is a whole number; `None` if it was not said and has no default.
    pub fn whole_if_said(&self, name: &str) -> Option<u64> {
        self.get(name).map(|number| match number {
            Number::Whole(number) => number,
            Number::Real(_) => panic!("{name} is a whole number"),
        })
    }

    /// The value of a parameter that is a whole number, and has a default.
    pub fn whole(&self, name: &str) -> u64 {
        self.whole_if_said(name).expect("it has a default")
    }

    /// As [`whole`](Self::whole), of one that is at most 255.
    pub fn small(&self, name: &str) -> u8 {
        u8::try_from(self.whole(name)).expect("its range is small")
    }

    /// The value of a parameter that is any number, and has a default.
    pub fn real(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Number::Real(number)) => number,
            other => panic!("{name} is a number with a default, and not {other:?}"),
        }
    }

    /// Those that differ from what they would be if they were not said.
    pub fn told(&self) -> impl Iterator<Item = (&'static str, Number)> {
        let told = self.values.iter().filter(|(parameter, value)| *value != parameter.default);
        told.filter_map(|(parameter, value)| value.map(|value| (parameter.name, value)))
    }
}
