//! Who ships: our program, a loop of the bench's own in a process, or Debezium.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use xtask::failure::{Explain as _, Failure, Outcome, failure};
use xtask::usage;

use super::debezium::Debezium;
use crate::candidate::Candidate;
use crate::child::Child;
use crate::measure::{Entry, Stage, number_of};
use crate::options::Order;
use crate::scenario::Case;
use crate::server::Database;

/// What a run takes place on.
#[derive(Debug)]
pub(super) struct Place<'p> {
    pub(super) stage: &'p Stage,
    pub(super) folder: &'p Path,
    pub(super) case: &'p Case,
    pub(super) entry: &'p Entry,
    pub(super) database: Database,
    pub(super) topic: String,
}

/// The processes; ended when this is dropped.
#[derive(Debug)]
pub(super) enum Worker {
    Loop(Child),
    Relays(Vec<tokio::process::Child>),
    Debezium(Debezium),
}

impl Place<'_> {
    /// The program `outbox-relay` of this build or of another one, with its defaults and what it has to be told.
    /// Other variables of its pass through: so a setting can be tried.
    fn relay(&self, verb: &str) -> Outcome<Command> {
        let own = || std::env::current_exe().map(|own| own.with_file_name("outbox-relay"));
        let program: PathBuf = match &self.entry.program {
            Some(program) => std::path::absolute(program),
            None => own(),
        }
        .explain(|| "cannot find outbox-relay".to_owned())?;
        let fencing = self.entry.candidate != Candidate::RelayUnfenced;
        let mut command = Command::new(program);
        command.arg(verb).current_dir(self.folder).kill_on_drop(true).stdin(Stdio::null());
        command.envs([
            ("OUTBOX_DATABASE__URL", self.database.url.as_str()),
            ("OUTBOX_KAFKA__BOOTSTRAP", &self.stage.kafka),
            ("OUTBOX_KAFKA__TOPIC", &self.topic),
            ("OUTBOX_KAFKA__FENCING", if fencing { "true" } else { "false" }),
            ("OUTBOX_HTTP__LISTEN", "127.0.0.1:0"),
            ("OUTBOX_LOG__LEVEL", "error"),
        ]);
        Ok(command)
    }

    /// Makes the tables as the candidate's build has them.
    pub(super) async fn migrate(&self) -> Outcome {
        let output = self.relay("migrate")?.output().await;
        let output = output.explain(|| {
            "cannot run `outbox-relay`, which has to be built beside the bench".to_owned()
        })?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { failure(format!("migrate: {said}")) }
    }
}

impl Worker {
    pub(super) async fn start(place: &Place<'_>) -> Outcome<Self> {
        let Place { stage, folder, case, entry, database, topic } = place;
        match entry.candidate {
            candidate if candidate.decodes() => {
                let from = (database, stage.server.port());
                let is_prompt = candidate == Candidate::DebeziumPrompt;
                let started = Debezium::start(folder, &stage.kafka, topic, from, is_prompt);
                started.await.map(Self::Debezium)
            }
            candidate if candidate.relays() => {
                let start = |_| {
                    let started = place.relay("run")?.spawn();
                    started.explain(|| "cannot start outbox-relay".to_owned())
                };
                (0..case.processes).map(start).collect::<Outcome<_>>().map(Self::Relays)
            }
            candidate => {
                let order = stage.order(case, candidate, database)?;
                let order = Order { topic: topic.clone(), records: 0, ..order };
                Child::start(&order).map(Self::Loop)
            }
        }
    }

    fn pids(&self) -> Outcome<Vec<u32>> {
        match self {
            Self::Loop(child) => Ok(vec![child.pid()?]),
            Self::Relays(all) => {
                let ended = || Failure("outbox-relay has ended".to_owned());
                all.iter().map(|one| one.id().ok_or_else(ended)).collect()
            }
            Self::Debezium(debezium) => Ok(vec![debezium.pid()]),
        }
    }

    /// Processor time of all of them, in seconds.
    pub(super) fn cpu(&self) -> Outcome<f64> {
        let each = self.pids()?.into_iter().map(|pid| Ok(usage::cpu(pid)?.as_secs_f64()));
        each.sum()
    }

    /// The largest resident memory of one of them, in MB.
    pub(super) fn memory(&self) -> Outcome<f64> {
        let each = self.pids()?.into_iter().map(|pid| Ok(number_of(usage::peak_memory(pid)?)));
        Ok(each.collect::<Outcome<Vec<f64>>>()?.into_iter().fold(0.0, f64::max) / 1e6)
    }

    /// Fails if one of them has ended or failed.
    pub(super) async fn looked_at(&mut self) -> Outcome {
        let ended = match self {
            Self::Loop(child) => child.ended()?,
            Self::Relays(all) => {
                let mut ended = None;
                for one in all {
                    ended = ended.or(one.try_wait().explain(|| "a relay".to_owned())?);
                }
                ended
            }
            Self::Debezium(debezium) => return debezium.looked_at().await,
        };
        ended.map_or(Ok(()), |status| failure(format!("its process ended with {status}")))
    }

    /// Stops one that is started before its backlog is there.
    pub(super) async fn pause(&self, database: &Database) -> Outcome {
        match self {
            Self::Debezium(debezium) => debezium.pause(database).await,
            _ => Ok(()),
        }
    }

    /// Lets it go on.
    pub(super) async fn resume(&self) -> Outcome {
        match self {
            Self::Debezium(debezium) => debezium.resume().await,
            _ => Ok(()),
        }
    }

    pub(super) async fn end(self, database: &Database) -> Outcome {
        match self {
            Self::Loop(child) => child.kill().await,
            Self::Relays(all) => {
                for mut one in all {
                    one.kill().await.explain(|| "cannot end a relay".to_owned())?;
                }
                Ok(())
            }
            Self::Debezium(debezium) => debezium.end(database).await,
        }
    }
}
