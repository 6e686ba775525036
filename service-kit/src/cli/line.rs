//! The command line: read, answered, and the configuration that it names.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::{Exit, Export, Terminal};
use crate::{ConfigError, Log, Overrides, Traces, TracesNotice};

/// What a user typed; `C` is the program's commands.
#[derive(Debug, Parser)]
pub struct Args<C: Subcommand> {
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets one key over file and environment, such as kafka.bootstrap=localhost:9092
    #[arg(long = "set", global = true, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// One thing to do.
    #[command(subcommand)]
    pub command: C,
}

/// Reads a configuration out of a file, the environment and what goes over both.
pub type Load<T> = fn(Option<&Path>, Vec<(String, String)>, &Overrides) -> Result<T, ConfigError>;

/// How a program reads its command line and its configuration, a `T`.
#[derive(Debug)]
pub struct Program<T: 'static> {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Every exit code and what it means, for the end of the help.
    pub exits: &'static [(Exit, &'static str)],
    /// The configuration file, where none is named and it is there.
    pub file: &'static str,
    /// The variable that names another one.
    pub env: &'static str,
    /// The name that the program's own lines have in the log.
    pub target: &'static str,
    /// Reads the configuration, and refuses what does not go together.
    pub load: Load<T>,
    /// What a configuration says of the log.
    pub log: fn(&T) -> &Log,
    /// What a configuration says of the export of spans, and the name of the service where nothing else says one.
    pub traces: fn(&T) -> (&Traces, &str),
    /// Writes to the log what the export of spans tells.
    pub tell: fn(TracesNotice),
    /// Lets errors show what a database says as it is, with values in it.
    pub show_values: fn(),
}

impl<T> Program<T> {
    /// Reads a command line. The error is what clap would print, help included.
    pub fn read<C: Subcommand>(
        &self,
        args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Args<C>, clap::Error> {
        let codes = self.exits.iter().map(|(exit, means)| format!("  {}  {means}\n", exit.code()));
        let help = format!("Exit codes:\n{}", codes.collect::<String>());
        let file = format!("The configuration file; {}, if it is there", self.file);
        let command = Args::<C>::command()
            .name(self.name)
            .about(self.about)
            .long_about(None)
            .after_help(help);
        let mut command = command.mut_arg("config", |config| config.env(self.env).help(file));
        let matches = command.try_get_matches_from_mut(args)?;
        Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// Reads a command line, or the exit after an answer: help goes to standard output and is no error, wrong usage is.
    pub fn read_or_answer<C: Subcommand>(
        &self,
        args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Args<C>, Exit> {
        self.read(args).map_err(|error| {
            let text = error.render().to_string();
            if error.use_stderr() {
                terminal.refuse(&text);
                return Exit::Usage;
            }
            terminal.say(text);
            Exit::Done
        })
    }

    /// Loads the configuration that the command line names.
    pub fn load<C: Subcommand>(
        &self,
        args: &Args<C>,
        env: &[(String, String)],
    ) -> Result<T, ConfigError> {
        let mut set = args.set.iter();
        let set = set.try_fold(Overrides::new(), |all, one| all.assignment(one))?;
        let default = Some(Path::new(self.file)).filter(|path| path.exists());
        (self.load)(args.config.as_deref().or(default), env.to_vec(), &set)
    }

    /// The configuration, with the log started as it says, and of a command that `exports` the export of spans; or
    /// the exit after a complaint.
    pub fn configure<C: Subcommand>(
        &self,
        args: &Args<C>,
        env: &[(String, String)],
        exports: bool,
        terminal: &mut Terminal<'_>,
    ) -> Result<(T, Export), Exit> {
        let loaded = self.load(args, env).map_err(|error| error.to_string());
        let begun = loaded.and_then(|config| {
            let traces = exports.then(|| (self.traces)(&config));
            let export = Export::start((self.log)(&config), self.target, traces, env, self.tell)?;
            if (self.log)(&config).database_text {
                (self.show_values)();
            }
            Ok((config, export))
        });
        begun.map_err(|text| {
            terminal.complain(text);
            Exit::Usage
        })
    }
}

/// Writes out what gives a role its rights, where the database has roles.
pub fn say_grants(statements: Option<String>, terminal: &mut Terminal<'_>) -> Exit {
    let Some(statements) = statements else {
        terminal
            .complain("SQLite has no roles: who may write to the file and its folder may do all");
        return Exit::Usage;
    };
    terminal.say(statements);
    Exit::Done
}
