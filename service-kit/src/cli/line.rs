//! The command line: read, answered, and where it says that the configuration is.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Parser;

use super::{Exit, Terminal};
use crate::{ConfigError, Overrides};

/// Reads a command line; its help ends with the exit codes and what they mean.
///
/// # Errors
/// What clap would print, help included.
pub fn read<A: Parser>(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    exits: &[(Exit, &str)],
) -> Result<A, clap::Error> {
    let codes = exits.iter().map(|(exit, means)| format!("  {}  {means}\n", exit.code()));
    let help = format!("Exit codes:\n{}", codes.collect::<String>());
    let mut command = A::command().after_help(help);
    let matches = command.try_get_matches_from_mut(args)?;
    A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Help goes to standard output and is no error; wrong usage is.
pub fn shown(error: &clap::Error, terminal: &mut Terminal<'_>) -> Exit {
    let text = error.render().to_string();
    if error.use_stderr() {
        terminal.refuse(&text);
        return Exit::Usage;
    }
    terminal.say(text);
    Exit::Done
}

/// The file that `--config` names, or else `default`, if it is there; and what each `--set` sets.
///
/// # Errors
/// One sentence, when a `--set` is no assignment.
pub fn source(
    config: Option<&Path>,
    default: &str,
    set: &[String],
) -> Result<(Option<PathBuf>, Overrides), ConfigError> {
    let set = set.iter().try_fold(Overrides::new(), |all, one| all.assignment(one))?;
    let default = Some(Path::new(default)).filter(|path| path.exists());
    Ok((config.or(default).map(Path::to_path_buf), set))
}
