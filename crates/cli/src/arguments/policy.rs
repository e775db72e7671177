//! Policies with their parameters, and lists of them.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use mjolnir_policy::{Parameter, PolicyError, listed, placement, victim};

/// Reads a policy of one kind, as `dac:classes=4`; its value is the shortest text that means the same.
#[derive(Clone, Copy)]
pub struct PolicyParser {
    shortest: fn(&str) -> Result<String, PolicyError>,
    list: fn() -> Vec<(&'static str, &'static [Parameter])>,
}

/// Placement policies.
pub const PLACEMENT: PolicyParser =
    PolicyParser { shortest: placement::shortest, list: || placement::list().collect() };

/// Victim policies.
pub const VICTIM: PolicyParser =
    PolicyParser { shortest: victim::shortest, list: || victim::list().collect() };

impl PolicyParser {
    /// Reads several, with commas between.
    pub fn list(self) -> PoliciesParser {
        PoliciesParser(self)
    }
}

/// What of a policy can be set: `classes=6 (temperatures)`.
fn about(parameters: &[Parameter]) -> String {
    let about = |parameter: &Parameter| format!("{parameter} ({})", parameter.about);
    parameters.iter().map(about).collect::<Vec<_>>().join(", ")
}

impl TypedValueParser for PolicyParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        let shortest = self.shortest;
        StringValueParser::new()
            .try_map(move |text| shortest(&text))
            .parse_ref(command, argument, value)
    }

    /// Names for help and completion.
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |(name, parameters): (&'static str, &'static [Parameter])| match parameters {
            [] => PossibleValue::new(name),
            _ => PossibleValue::new(name).help(about(parameters)),
        };
        Some(Box::new((self.list)().into_iter().map(value)))
    }
}

/// Policies of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies(pub Vec<String>);

/// Reads several policies of one kind, with commas between.
#[derive(Clone, Copy)]
pub struct PoliciesParser(PolicyParser);

impl TypedValueParser for PoliciesParser {
    type Value = Policies;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Policies, Error> {
        let text = StringValueParser::new().parse_ref(command, argument, value)?;
        let one = |text: String| self.0.parse_ref(command, argument, OsStr::new(&text));
        listed(&text).into_iter().map(one).collect::<Result<_, _>>().map(Policies)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long, default_value = "greedy", value_parser = VICTIM)]
        policy: String,
        #[arg(long, value_parser = PLACEMENT.list())]
        placement: Vec<Policies>,
    }

    fn line(words: &str) -> Result<Line, String> {
        Line::try_parse_from(words.split(' ')).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_are_read_and_defaults_left_out() {
        let read = line(
            "x --policy d-choices:choices=4 --placement dac:classes=6,autostream:chunk=64,classes=4",
        )
        .unwrap();
        assert_eq!(read.policy, "d-choices:choices=4");
        let policies = ["dac", "autostream:classes=4,chunk=64"].map(str::to_owned);
        assert_eq!(read.placement, [Policies(policies.into())]);
        assert_eq!(line("x").unwrap().policy, "greedy");
    }

    #[test]
    fn what_cannot_be_is_told_with_what_can() {
        for (words, said) in [
            ("x --policy gready", "\"greedy\" comes nearest"),
            ("x --policy d-choices:choice=4", "\"choices\" comes nearest"),
            ("x --placement apart,dac:classes=0", "a whole number from 1 to 64 (6 if not said)"),
        ] {
            let why = line(words).unwrap_err();
            assert!(why.contains(said), "{words}: {why}");
        }
    }

    #[test]
    fn help_tells_what_can_be_set() {
        let mut command = <Line as clap::CommandFactory>::command();
        let help = command.render_long_help().to_string();
        assert!(help.contains("choices=10 (segments that are drawn)"), "{help}");
        assert!(help.contains("classes=6 (temperatures)"), "{help}");
    }
}
