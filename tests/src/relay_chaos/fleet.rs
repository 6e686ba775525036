//! Three relays of one outbox: the active one is killed or frozen.

use std::path::{Path, PathBuf};

use crate::{Outbox, SOON, Worker, until_some};

const RELAYS: usize = 3;

/// The relays.
pub(super) struct Fleet {
    program: PathBuf,
    relays: Vec<Worker>,
    started_again: u32,
}

impl Fleet {
    pub(super) fn start(outbox: &Outbox, program: &Path) -> Self {
        let relays = (0..RELAYS).map(|_| outbox.spawn(program)).collect();
        Self { program: program.to_owned(), relays, started_again: 0 }
    }

    /// `kill -9`; [`Fleet::start_another`] puts a new one in its place.
    pub(super) fn kill(&mut self, relay: usize) {
        self.relays[relay].kill();
    }

    pub(super) fn start_another(&mut self, relay: usize, outbox: &Outbox) {
        self.relays[relay] = outbox.spawn(&self.program);
    }

    pub(super) fn pause(&self, relay: usize) {
        self.relays[relay].pause();
    }

    pub(super) fn resume(&self, relay: usize) {
        self.relays[relay].resume();
    }

    /// Starts relays again that have ended by themselves: one that starts without a database gives up, and
    /// whatever manages services starts it again.
    pub(super) fn revive(&mut self, outbox: &Outbox) {
        for relay in &mut self.relays {
            if !relay.running() {
                self.started_again += 1;
                let log = relay.log();
                println!("a relay ended by itself: {}", log.lines().last().unwrap_or_default());
                *relay = outbox.spawn(&self.program);
            }
        }
    }

    pub(super) fn started_again(&self) -> u32 {
        self.started_again
    }

    /// Which one has the turn.
    pub(super) async fn active(&mut self, outbox: &Outbox) -> usize {
        until_some(SOON, "a relay has the turn", async || {
            self.revive(outbox);
            let holder: Option<String> =
                sqlx::query_scalar("SELECT owner FROM outbox_relays WHERE lease_until > now()")
                    .fetch_optional(outbox.schema.pool())
                    .await
                    .ok()?
                    .flatten();
            let pid: u32 = holder?.rsplit_once('/')?.1.parse().ok()?;
            self.relays.iter().position(|relay| relay.pid() == pid)
        })
        .await
    }
}
