//! Real services for tests and for work: one Kafka broker and one PostgreSQL server.

pub(crate) mod jars;
mod keeper;
mod left_up;

use std::io::{Read as _, stdin};
use std::path::PathBuf;
use std::process::Command;

use xtask::command::capture;
use xtask::failure::{Failure, Outcome, failure};
use xtask::server::{Kafka, KafkaSettings, Postgres};

use crate::toolchain;

use keeper::Keeper;
pub(crate) use keeper::keep;
use left_up::LeftUp;

/// Kafka's bootstrap list, for tests.
const KAFKA: &str = "INBOX_TEST_KAFKA";
/// A superuser's address of PostgreSQL, for tests.
const POSTGRES: &str = "INBOX_TEST_POSTGRES";

/// Where the services are, and how to start others like them. Stops what this run started when dropped.
#[derive(Debug)]
pub(crate) struct Services {
    kafka: Found,
    postgres: Found,
    /// Absent where the server programs cannot be had, though servers were named in the environment.
    programs: Option<Programs>,
    keeper: Keeper,
}

/// What starts further servers: tests that hurt a server start their own.
#[derive(Debug)]
struct Programs {
    postgres: PathBuf,
    kafka: PathBuf,
}

#[derive(Debug)]
struct Found {
    address: String,
    origin: &'static str,
}

impl Services {
    /// The services from the environment, else those left up, else new ones for this run. The inner
    /// failure says what cannot be had here.
    pub(crate) fn find_or_start() -> Outcome<Result<Self, Failure>> {
        let absent = toolchain::services()?;
        let programs = if absent.is_none() { Some(Programs::find()?) } else { None };
        let keeper = Keeper::start()?;
        let (kafka, postgres) = match (named(KAFKA), named(POSTGRES), &programs, absent) {
            (Some(kafka), Some(postgres), ..) => (kafka, postgres),
            (kafka, postgres, Some(programs), _) => {
                let (own_kafka, own_postgres) = left_up_or_started(programs, &keeper)?;
                (kafka.unwrap_or(own_kafka), postgres.unwrap_or(own_postgres))
            }
            (.., absent) => return Ok(Err(absent.unwrap_or_else(|| Failure(String::new())))),
        };
        Ok(Ok(Self { kafka, postgres, programs, keeper }))
    }

    /// What tests find in their environment.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            (KAFKA, self.kafka.address.clone()),
            (POSTGRES, self.postgres.address.clone()),
            ("INBOX_TEST_FOLDER", self.keeper.folder().display().to_string()),
        ];
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
}

impl Programs {
    fn find() -> Outcome<Self> {
        Ok(Self { postgres: toolchain::postgres_programs()?, kafka: jars::kafka()? })
    }

    /// Starts both in the keeper's folder. If one does not start, the keeper stops the other.
    fn start(&self, keeper: &Keeper) -> Outcome<LeftUp> {
        let folder = keeper.folder();
        let mut kafka = Kafka::create(folder, "kafka", &self.kafka, &KafkaSettings::default())?;
        kafka.start()?;
        let postgres = Postgres::create(folder, "postgres", &self.postgres, "")?;
        postgres.start()?;
        let folder = folder.to_path_buf();
        Ok(LeftUp { folder, kafka: kafka.address(), postgres: postgres.url() })
    }
}

fn named(variable: &str) -> Option<Found> {
    let address = std::env::var(variable).ok().filter(|value| !value.is_empty())?;
    Some(Found { address, origin: "from the environment" })
}

fn left_up_or_started(programs: &Programs, keeper: &Keeper) -> Outcome<(Found, Found)> {
    let (found, origin) = match LeftUp::find()? {
        Some(found) => (found, "left up"),
        None => (programs.start(keeper)?, "started for this run"),
    };
    let at = |address| Found { address, origin };
    Ok((at(found.kafka), at(found.postgres)))
}

/// `services up`: starts both and leaves them running; says where they are.
pub(crate) fn up() -> Outcome {
    if let (Some(kafka), Some(postgres)) = (named(KAFKA), named(POSTGRES)) {
        println!("the environment names Kafka {} and", kafka.address);
        println!("PostgreSQL {}: nothing to start", shown(&postgres.address));
        return Ok(());
    }
    if let Some(found) = LeftUp::find()? {
        println!("already up");
        print(&found);
        return Ok(());
    }
    toolchain::ensure(toolchain::SERVICES)?;
    let programs = Programs::find()?;
    let keeper = Keeper::start()?;
    let started = programs.start(&keeper)?;
    started.write()?;
    keeper.release()?;
    print(&started);
    Ok(())
}

/// `services down`: stops what `up` left running and removes its data.
pub(crate) fn down() -> Outcome {
    match LeftUp::find()? {
        None => println!("nothing is up"),
        // Somebody works on other servers in this shell: those left up may serve another one.
        Some(found) if named(KAFKA).is_some_and(|kafka| kafka.address != found.kafka) => println!(
            "{KAFKA} names another Kafka than the one left up ({}), which is left as it is; unset \
             {KAFKA} to stop it",
            found.kafka
        ),
        Some(found) => {
            found.stop()?;
            println!("Kafka and PostgreSQL are stopped, their data is removed");
        }
    }
    Ok(())
}

/// `services status`: where the services are that `up` left running.
pub(crate) fn status() -> Outcome {
    match LeftUp::find()? {
        None => println!("nothing is up; `cargo xtask services up` starts Kafka and PostgreSQL"),
        Some(found) => print(&found),
    }
    Ok(())
}

/// `services env`: lines for a shell, and nothing else.
pub(crate) fn env() -> Outcome {
    let (kafka, postgres) = addresses()?;
    print_exports(&kafka, &postgres);
    Ok(())
}

/// `services hold`: finds or starts both, says where they are as `env` does, and stops what it started when its
/// input ends: the program that holds the other end has no more use for them, or is dead.
pub(crate) fn hold() -> Outcome {
    let services = Services::find_or_start()??;
    print_exports(&services.kafka.address, &services.postgres.address);
    drop(stdin().read_to_end(&mut Vec::new()));
    Ok(())
}

fn print_exports(kafka: &str, postgres: &str) {
    println!("export {KAFKA}={kafka}");
    println!("export {POSTGRES}={postgres}");
}

/// `services topic`: creates a topic with Kafka's own tool.
pub(crate) fn topic(name: &str, partitions: u16) -> Outcome {
    let (kafka, _) = addresses()?;
    toolchain::ensure(toolchain::SERVICES)?;
    let mut java = Command::new("java");
    java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error");
    java.arg("-cp").arg(jars::kafka()?.join("*"));
    java.args(["org.apache.kafka.tools.TopicCommand", "--create", "--if-not-exists"]);
    java.args(["--bootstrap-server", &kafka, "--topic", name]);
    capture(java.args(["--partitions", &partitions.to_string()]))?;
    println!("topic {name} with {partitions} partitions");
    Ok(())
}

/// Kafka's and PostgreSQL's, from the environment or left up.
fn addresses() -> Outcome<(String, String)> {
    if let (Some(kafka), Some(postgres)) = (named(KAFKA), named(POSTGRES)) {
        return Ok((kafka.address, postgres.address));
    }
    match LeftUp::find()? {
        Some(found) => Ok((found.kafka, found.postgres)),
        None => failure("nothing is up; `cargo xtask services up` starts Kafka and PostgreSQL"),
    }
}

fn print(found: &LeftUp) {
    let pid = |name| found.process(name).map_or(0, |process| process.pid());
    println!("Kafka       {:<44} pid {}", found.kafka, pid("kafka"));
    println!("PostgreSQL  {:<44} pid {}", found.postgres, pid("postgres"));
    println!("data, logs  {}", found.folder.display());
    println!("\nFor your own commands: eval \"$(cargo xtask services env)\"");
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
