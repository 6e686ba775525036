//! Three relays of one outbox: the active one is killed or frozen.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Outbox, SOON, Worker, until_some};

const RELAYS: usize = 3;

/// The relays.
pub(super) struct Fleet {
    program: PathBuf,
    relays: Vec<Worker>,
}

impl Fleet {
    pub(super) fn start(outbox: &Outbox, program: &Path) -> Self {
        let relays = (0..RELAYS).map(|_| outbox.spawn(program)).collect();
        Self { program: program.to_owned(), relays }
    }

    /// `kill -9` for the active one, and a new one in its place; answers how many rows were sent then.
    pub(super) async fn kill_active(&mut self, outbox: &Outbox) -> i64 {
        let active = self.active(outbox).await;
        self.relays[active].kill();
        let sent = sent(outbox).await;
        self.relays[active] = outbox.spawn(&self.program);
        sent
    }

    /// Freezes the active one until its lease is over and another has shipped; then wakes it.
    pub(super) async fn freeze_active(&mut self, outbox: &Outbox, lease: Duration) -> i64 {
        let active = self.active(outbox).await;
        self.relays[active].pause();
        let before = sent(outbox).await;
        tokio::time::sleep(lease + Duration::from_millis(500)).await;
        super::moved(outbox, before).await;
        self.relays[active].resume();
        sent(outbox).await
    }

    /// Which one has the turn.
    async fn active(&self, outbox: &Outbox) -> usize {
        until_some(SOON, "a relay has the turn", async || {
            let holder: Option<String> =
                sqlx::query_scalar("SELECT owner FROM outbox_relays WHERE lease_until > now()")
                    .fetch_optional(outbox.schema.pool())
                    .await
                    .expect("reading the turn")
                    .flatten();
            let pid: u32 = holder?.rsplit_once('/')?.1.parse().ok()?;
            self.relays.iter().position(|relay| relay.pid() == pid)
        })
        .await
    }
}

/// Rows that are marked as sent.
pub(super) async fn sent(outbox: &Outbox) -> i64 {
    outbox.schema.number("SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL").await
}
