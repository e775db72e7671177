//! Hints for a command line that lacks its subcommand.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::Arguments;

/// Adds the list of subcommands to an error about a word that is no subcommand: `mjolnir gc STORE`
/// lacks `run`.
pub fn hinted(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let has_one = error.get(ContextKind::SuggestedSubcommand).is_some();
    if error.kind() != ErrorKind::InvalidSubcommand || has_one {
        return error;
    }
    let root = Arguments::command();
    let (mut command, mut path) = (&root, String::from("mjolnir"));
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    for word in words.iter().skip(1).skip_while(is_option) {
        let Some(next) = command.find_subcommand(word) else { break };
        path = format!("{path} {}", next.get_name());
        command = next;
    }
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let names: Vec<&str> = command.get_subcommands().filter(shown).map(Command::get_name).collect();
    if path.contains(' ') && !names.is_empty() {
        let tip = format!("write `{path} {} ...`", names.join("|"));
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn half_a_command_is_told_its_other_half() {
        for (line, told) in [
            ("mjolnir gc s.mj", "mjolnir gc run|status ..."),
            ("mjolnir --json record s.mj", "mjolnir record start|stop ..."),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = Arguments::try_parse_from(&words).unwrap_err();
            let shown = hinted(error, &words).to_string();
            assert!(shown.contains(told), "no {told:?} in {shown}");
        }
    }
}
