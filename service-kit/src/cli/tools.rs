//! Commands about the program itself: its configuration, completions for shells, man pages.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use clap_complete::Shell;
use serde::Serialize;
use toml::{Table, Value};

use super::{Args, Exit, Program, Terminal, columns, example};
use crate::{KeyTable, printed};

/// Commands about the program itself.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum Tool {
    /// Print an example configuration, or the effective one
    Config {
        /// What to print.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder
    Man {
        /// The folder
        #[arg(value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

/// What to print of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a commented file with every key and its default
    Example,
    /// Print the effective values and where each comes from; secrets are masked
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// One value of a configuration.
#[derive(Serialize)]
struct Effective {
    key: String,
    value: Value,
    from: String,
}

impl<T: Serialize> Program<T> {
    /// Runs a command about the program itself.
    pub fn tool<C: Subcommand>(
        &self,
        tool: &Tool,
        args: &Args<C>,
        env: &[(String, String)],
        terminal: &mut Terminal<'_>,
    ) -> Exit {
        let done = match tool {
            Tool::Config { command: ConfigCommand::Example } => {
                Ok(example::example(&format!("{} {}", self.name, self.version), self.table))
            }
            Tool::Config { command: ConfigCommand::Show { json } } => self.show(args, env, *json),
            Tool::Completions { shell } => Ok(self.completions::<C>(*shell)),
            Tool::Man { folder } => self.pages::<C>(folder.as_deref()).map_err(|error| {
                format!("cannot write manual pages: {error}; name an existing folder")
            }),
        };
        match done {
            Ok(text) => {
                terminal.say(text);
                Exit::Done
            }
            Err(text) => {
                terminal.complain(text);
                Exit::Usage
            }
        }
    }

    fn show<C: Subcommand>(
        &self,
        args: &Args<C>,
        env: &[(String, String)],
        json: bool,
    ) -> Result<String, String> {
        let config = self.load(args, env).map_err(|error| error.to_string())?;
        let sources = self.sources(args, env).map_err(|error| error.to_string())?;
        let all = Table::try_from(&config).map_err(|error| error.to_string())?;
        let values = effective(self.table, &all, &sources);
        if json {
            return Ok(printed::json(&values));
        }
        let rows =
            values.into_iter().map(|Effective { key, value, from }| [key, value.to_string(), from]);
        Ok(columns(["KEY", "VALUE", "FROM"], &rows.collect::<Vec<_>>(), [false; 3]))
    }

    fn completions<C: Subcommand>(&self, shell: Shell) -> String {
        let mut script = Vec::new();
        let name = binary().unwrap_or_else(|| self.name.to_owned());
        clap_complete::generate(shell, &mut self.command::<C>(), name, &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }

    fn pages<C: Subcommand>(&self, folder: Option<&Path>) -> io::Result<String> {
        let command = self.command::<C>();
        if let Some(folder) = folder {
            clap_mangen::generate_to(command, folder)?;
            return Ok(format!("wrote the manual pages to {}", folder.display()));
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        Ok(String::from_utf8_lossy(&page).into_owned())
    }
}

/// What this binary is called: a consumer with handlers of its own has a name of its own.
fn binary() -> Option<String> {
    let first = std::env::args_os().next()?;
    Some(Path::new(&first).file_stem()?.to_string_lossy().into_owned())
}

/// Every key that has a value, in the order of the documentation.
fn effective(table: KeyTable, all: &Table, sources: &BTreeMap<String, String>) -> Vec<Effective> {
    let mut values = Vec::new();
    let mut add = |key: String, value: &Value| {
        let from = sources.get(&key).or_else(|| sources.get(&format!("{key}.0")));
        let from = from.map_or("default", String::as_str).to_owned();
        values.push(Effective { key, value: value.clone(), from });
    };
    let single = table.keys.iter().filter(|key| !table.repeats(key.section()));
    for key in single {
        match key.of(all) {
            None => {}
            // Settings by their names, but those that are keys themselves.
            Some(Value::Table(settings)) => {
                for (name, value) in settings {
                    let path = format!("{}.{name}", key.path);
                    if table.find(&path).is_none() {
                        add(path, value);
                    }
                }
            }
            Some(value) => add(key.path.to_owned(), value),
        }
    }
    for (section, _) in table.sections.iter().filter(|(_, repeated)| *repeated) {
        let tables = all.get(*section).and_then(Value::as_array).into_iter().flatten();
        for (at, one) in tables.enumerate() {
            for (name, value) in one.as_table().into_iter().flatten() {
                add(format!("{section}.{at}.{name}"), value);
            }
        }
    }
    values
}
