//! The command line: read, answered, and the configuration that it names.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::{
    Exit, Export, Terminal,
    json::{self, Identity},
    subscriber,
};
use crate::{ConfigError, KeyTable, Log, Overrides, PanicReport, Traces, TracesNotice};

/// What a user typed; `C` is the program's commands.
#[derive(Debug, Parser)]
pub struct Args<C: Subcommand> {
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override one key of file and environment, such as kafka.bootstrap=localhost:9092
    #[arg(long = "set", global = true, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// One thing to do.
    #[command(subcommand)]
    pub command: C,
}

/// Reads a configuration out of a file, the environment and what goes over both.
pub type Load<T> = fn(Option<&Path>, Vec<(String, String)>, &Overrides) -> Result<T, ConfigError>;

/// What a command is to the log and to the export of spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// A person's command: complaints are for people.
    Command,
    /// A process that a running one has started: everything that it writes is its log.
    Trial,
    /// A process that runs until it is ended: likewise, and its spans are exported.
    Run,
}

/// How a program reads its command line and its configuration, a `T`.
#[derive(Debug)]
pub struct Program<T: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Every exit code and what it means, for the end of the help.
    pub exits: &'static [(Exit, &'static str)],
    /// The configuration file, where none is named and it is there.
    pub file: &'static str,
    /// The variable that names another one.
    pub env: &'static str,
    /// The table of its keys.
    pub table: KeyTable,
    /// Reads the configuration, and refuses what does not go together.
    pub load: Load<T>,
    /// What a configuration says of the log.
    pub log: fn(&T) -> &Log,
    /// What a configuration says of the export of spans, and the name of the service where nothing else says one.
    pub traces: fn(&T) -> (&Traces, &str),
    /// What a configuration is for, and its name, for each line of the log: `consumer` and `billing`, say.
    pub instance: fn(&T) -> (&'static str, String),
    /// Writes to the log what the export of spans tells.
    pub tell: fn(TracesNotice),
    /// Writes a panic to the log.
    pub panicked: fn(PanicReport),
    /// Lets errors show what a database says as it is, with values in it.
    pub show_values: fn(),
}

impl<T> Program<T> {
    /// The command line as clap has it.
    pub(super) fn command<C: Subcommand>(&self) -> clap::Command {
        let codes = self.exits.iter().map(|(exit, means)| format!("  {}  {means}\n", exit.code()));
        let help = format!("Exit codes:\n{}", codes.collect::<String>());
        let file = format!("The configuration file; {}, if it exists", self.file);
        let command = Args::<C>::command()
            .name(self.name)
            .version(self.version)
            .about(self.about)
            .long_about(None)
            .after_help(help);
        command.mut_arg("config", |config| config.env(self.env).help(file))
    }

    /// Reads a command line. The error is what clap would print, help included.
    pub fn read<C: Subcommand>(
        &self,
        args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Args<C>, clap::Error> {
        let mut command = self.command::<C>();
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
        (self.load)(self.path(args), env.to_vec(), &args.overrides()?)
    }

    /// The file of the configuration, if there is one.
    fn path<'a, C: Subcommand>(&self, args: &'a Args<C>) -> Option<&'a Path> {
        let default = Some(Path::new(self.file)).filter(|path| path.exists());
        args.config.as_deref().or(default)
    }

    /// Where the configuration comes from, for people.
    pub fn source<C: Subcommand>(&self, args: &Args<C>) -> String {
        let none = "the environment and flags, no file";
        self.path(args).map_or_else(|| none.to_owned(), |path| path.display().to_string())
    }

    /// Where each value comes from, by its path.
    pub(super) fn sources<C: Subcommand>(
        &self,
        args: &Args<C>,
        env: &[(String, String)],
    ) -> Result<BTreeMap<String, String>, ConfigError> {
        self.table.sources(self.path(args), env.to_vec(), &args.overrides()?)
    }

    /// The configuration, with the log started as it says, and where the mode says so the export of spans; or the exit
    /// after a complaint. Where the log is JSON, all that a running program writes is, panics included.
    pub fn configure<C: Subcommand>(
        &self,
        args: &Args<C>,
        env: &[(String, String)],
        mode: Mode,
        terminal: &mut Terminal<'_>,
    ) -> Result<(T, Export), Exit> {
        let loaded = self.load(args, env).map_err(|error| error.to_string());
        let begun = loaded.and_then(|config| {
            let log = (self.log)(&config);
            let identity = Identity {
                program: self.name,
                version: self.version,
                target: self.table.target,
                instance: (self.instance)(&config),
            };
            let traces = (mode == Mode::Run).then(|| (self.traces)(&config));
            let export = Export::start(log, &identity, traces, env, self.tell)?;
            let is_json = mode != Mode::Command && subscriber::is_json(log);
            if is_json {
                json::report_panics(self.panicked);
            }
            if log.database_text {
                (self.show_values)();
            }
            Ok((config, export, is_json))
        });
        match begun {
            Ok((config, export, is_json)) => {
                if is_json {
                    terminal.complain_as_json();
                }
                Ok((config, export))
            }
            Err(text) => {
                terminal.complain(text);
                Err(Exit::Usage)
            }
        }
    }
}

impl<C: Subcommand> Args<C> {
    /// What goes over file and environment.
    fn overrides(&self) -> Result<Overrides, ConfigError> {
        self.set.iter().try_fold(Overrides::new(), |all, one| all.assignment(one))
    }
}

/// Writes out what gives a role its rights, where the database has roles.
pub fn say_grants(statements: Option<String>, terminal: &mut Terminal<'_>) -> Exit {
    let Some(statements) = statements else {
        terminal.complain(
            "SQLite has no roles: anybody who may write to the file and its folder has \
                       all rights",
        );
        return Exit::Usage;
    };
    terminal.say(statements);
    Exit::Done
}
