//! Three relays of one outbox: an active one is killed or frozen.

use crate::{Outbox, SOON, Worker, until_some};

const RELAYS: usize = 3;
const ACTIVE: &str = "SELECT owner FROM outbox_relays WHERE lease_until > now() AND shards <> 0 ORDER BY random() LIMIT 1";

/// Starts a relay of an outbox, with its number.
pub(super) type Launch = Box<dyn Fn(&Outbox, usize) -> Worker + Send + Sync>;

/// The relays.
pub(super) struct Fleet {
    launch: Launch,
    relays: Vec<Worker>,
    /// The number of each.
    numbers: Vec<usize>,
    /// How many were started.
    started: usize,
    started_again: u32,
}

impl Fleet {
    pub(super) fn start(outbox: &Outbox, launch: Launch) -> Self {
        let numbers: Vec<usize> = (0..RELAYS).collect();
        let relays = numbers.iter().map(|number| launch(outbox, *number)).collect();
        Self { launch, relays, numbers, started: RELAYS, started_again: 0 }
    }

    /// The number of a relay: each one that is started has its own.
    pub(super) fn number(&self, relay: usize) -> usize {
        self.numbers[relay]
    }

    /// `kill -9`; [`Fleet::start_another`] puts a new one in its place.
    pub(super) fn kill(&mut self, relay: usize) {
        self.relays[relay].kill();
    }

    pub(super) fn start_another(&mut self, relay: usize, outbox: &Outbox) {
        self.numbers[relay] = self.started;
        self.started += 1;
        self.relays[relay] = (self.launch)(outbox, self.numbers[relay]);
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
        for relay in 0..self.relays.len() {
            if !self.relays[relay].running() {
                self.started_again += 1;
                let log = self.relays[relay].log();
                println!("a relay ended by itself: {}", log.lines().last().unwrap_or_default());
                self.start_another(relay, outbox);
            }
        }
    }

    pub(super) fn started_again(&self) -> u32 {
        self.started_again
    }

    /// One that has a turn.
    pub(super) async fn active(&mut self, outbox: &Outbox) -> usize {
        until_some(SOON, "a relay has the turn", async || {
            self.revive(outbox);
            let holder: Option<String> = sqlx::query_scalar(ACTIVE)
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
