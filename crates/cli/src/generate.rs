//! Help, completions and manual pages, all from the definitions of the command line.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output;

/// Prints the help.
pub fn help() -> Result<(), Failure> {
    output::print(&Arguments::command().render_help().to_string())
}

/// Prints completions for a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "mjolnir", &mut text);
    output::print_bytes(&text)
}

/// Prints the manual page, or writes one for each command to `folder`.
pub fn man(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        let mut text = Vec::new();
        clap_mangen::Man::new(Arguments::command())
            .render(&mut text)
            .map_err(|error| Failure::new(format!("rendering the manual page: {error}")))?;
        return output::print_bytes(&text);
    };
    output::make_folder(folder)?;
    let failed = |error| Failure::new(format!("writing pages to {}: {error}", folder.display()));
    clap_mangen::generate_to(Arguments::command(), folder).map_err(failed)
}
