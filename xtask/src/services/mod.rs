//! Real services for tests and for work: one Kafka broker and one PostgreSQL server, on free ports,
//! with their data in a folder that goes when they go.

mod folder;
mod kafka;
mod keeper;
mod ports;
pub(crate) mod postgres;

use std::env;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};
use crate::{folders, toolchain};

use folder::Folder;
use keeper::Keeper;
pub(crate) use keeper::keep;

/// Kafka's bootstrap list, for tests.
const KAFKA: &str = "INBOX_TEST_KAFKA";
/// A superuser's address of PostgreSQL, for tests.
const POSTGRES: &str = "INBOX_TEST_POSTGRES";

/// Where the services are, and how to start others like them. Stops what it started when dropped.
#[derive(Debug)]
pub(crate) struct Services {
    kafka: Service,
    postgres: Service,
    /// Absent where the server programs cannot be had, though servers were named in the environment.
    programs: Option<Programs>,
    /// Ends, and so stops the services, when this program ends, however it ends.
    _keeper: Option<Keeper>,
}

/// What starts further servers: tests that hurt a server start their own.
#[derive(Debug)]
struct Programs {
    postgres: PathBuf,
    kafka: PathBuf,
}

#[derive(Debug)]
struct Service {
    address: String,
    origin: &'static str,
}

impl Services {
    /// What tests find in their environment.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables =
            vec![(KAFKA, self.kafka.address.clone()), (POSTGRES, self.postgres.address.clone())];
        if let Some(programs) = &self.programs {
            variables.push(("INBOX_TEST_PG_BIN", programs.postgres.display().to_string()));
            variables.push(("INBOX_TEST_KAFKA_JARS", programs.kafka.display().to_string()));
        }
        variables
    }

    /// One line: which services, at which address, and where they come from.
    pub(crate) fn line(&self) -> String {
        let Self { kafka, postgres, .. } = self;
        format!(
            "Kafka {} ({}), PostgreSQL {} ({})",
            kafka.address,
            kafka.origin,
            shown(&postgres.address),
            postgres.origin
        )
    }

    /// The services from the environment, else those left up, else new ones for this run. The inner
    /// failure says what cannot be had here.
    pub(crate) fn find_or_start() -> Outcome<Result<Self, Failure>> {
        let absent = toolchain::services()?;
        let named = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let (kafka, postgres) = (named(KAFKA), named(POSTGRES));
        let programs = if absent.is_none() { Some(programs()?) } else { None };
        if let (Some(kafka), Some(postgres)) = (&kafka, &postgres) {
            let origin = "from the environment";
            return Ok(Ok(Self {
                kafka: Service { address: kafka.clone(), origin },
                postgres: Service { address: postgres.clone(), origin },
                programs,
                _keeper: None,
            }));
        }
        let Some(programs) = programs else {
            return Ok(Err(absent.unwrap_or_else(|| Failure(String::new()))));
        };
        let (folder, origin, keeper) = match Folder::left_up()? {
            Some(folder) => (folder, "left up", None),
            None => {
                let (folder, keeper) = start(&programs)?;
                (folder, "started for this run", Some(keeper))
            }
        };
        let service = |named: Option<String>, own: String| match named {
            Some(address) => Service { address, origin: "from the environment" },
            None => Service { address: own, origin },
        };
        Ok(Ok(Self {
            kafka: service(kafka, folder.kafka_address()?),
            postgres: service(postgres, folder.postgres_address()?),
            programs: Some(programs),
            _keeper: keeper,
        }))
    }
}

fn programs() -> Outcome<Programs> {
    Ok(Programs { postgres: toolchain::postgres_binaries()?, kafka: kafka::jars()? })
}

/// Starts both. If one does not start, dropping the keeper stops the other.
fn start(programs: &Programs) -> Outcome<(Folder, Keeper)> {
    let folder = Folder::create(folders::fresh()?)?;
    let keeper = Keeper::start(&folder)?;
    kafka::start(&folder, &programs.kafka)?;
    postgres::start(&folder, &programs.postgres)?;
    Ok((folder, keeper))
}

/// `services up`: starts both and leaves them running; says where they are.
pub(crate) fn up() -> Outcome {
    if let Some(folder) = Folder::left_up()? {
        println!("already up");
        return print(&folder);
    }
    toolchain::ensure(toolchain::SERVICES)?;
    let (folder, keeper) = start(&programs()?)?;
    folder.leave_up()?;
    keeper.release()?;
    print(&folder)
}

/// `services down`: stops what `up` left running and removes its data.
pub(crate) fn down() -> Outcome {
    match Folder::left_up()? {
        None => println!("nothing is up"),
        Some(folder) => {
            folder.stop_and_remove();
            println!("Kafka and PostgreSQL are stopped, their data is removed");
        }
    }
    Folder::forget_left_up()
}

/// `services status`: where the services are that `up` left running.
pub(crate) fn status() -> Outcome {
    match Folder::left_up()? {
        None => println!("nothing is up; `cargo xtask services up` starts Kafka and PostgreSQL"),
        Some(folder) => print(&folder)?,
    }
    Ok(())
}

fn print(folder: &Folder) -> Outcome {
    println!("Kafka       {:<44} pid {}", folder.kafka_address()?, folder.pid_of("kafka"));
    println!("PostgreSQL  {:<44} pid {}", folder.postgres_address()?, folder.pid_of("postgres"));
    println!("data, logs  {}", folder.path().display());
    println!("\nFor your own commands:");
    println!("export {KAFKA}={}", folder.kafka_address()?);
    println!("export {POSTGRES}={}", folder.postgres_address()?);
    Ok(())
}

/// An address without its password.
fn shown(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    match rest.rsplit_once('@') {
        Some((login, host)) => {
            format!("{scheme}://{}@{host}", login.split(':').next().unwrap_or_default())
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        assert_eq!(shown("postgres://me:secret@db:5432/x"), "postgres://me@db:5432/x");
        assert_eq!(shown("postgres://db/x"), "postgres://db/x");
        assert_eq!(shown("127.0.0.1:9092"), "127.0.0.1:9092");
    }
}
