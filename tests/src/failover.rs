//! Failovers that lose what came last, and rounds of them.

use std::time::Instant;

use sqlx::{Connection as _, PgConnection};

use crate::{OwnPostgres, Proxy, Schema, StopMode};

/// A server behind a proxy, whose replica takes its place.
#[derive(Debug)]
pub struct Failover {
    primary: OwnPostgres,
    proxy: Proxy,
    replica: Option<OwnPostgres>,
}

impl Failover {
    /// Starts the server.
    pub async fn start() -> Self {
        let primary = OwnPostgres::start().await;
        let proxy = Proxy::start(&primary.address()).await;
        Self { primary, proxy, replica: None }
    }

    /// A new, empty schema on the first server.
    pub async fn schema(&self) -> Schema {
        self.primary.schema().await
    }

    /// A URL that leads to whichever server is the primary.
    pub fn url(&self, schema: &Schema) -> String {
        schema.url_at(&self.proxy.url(&self.primary.url()))
    }

    /// What is committed from now on is lost: a replica has everything else, and takes nothing more.
    pub async fn lag(&mut self) {
        let replica = self.primary.replica().await;
        replica.catch_up_with(&self.primary).await;
        replica.freeze().await;
        self.replica = Some(replica);
    }

    /// Ends the first server and makes the replica the primary; a connection to it. The proxy leads nowhere
    /// until [`Failover::lead_over`].
    pub async fn promote(&self, schema: &Schema) -> PgConnection {
        // Else the replica might come to fetch the rest after all while it is promoted.
        self.primary.stop(StopMode::Immediate);
        self.replica().promote().await;
        let url = schema.url_at(&self.replica().url());
        PgConnection::connect(&url).await.expect("the new primary takes connections")
    }

    /// Answers through the proxy come that much later.
    pub fn delay(&self, delay: std::time::Duration) {
        self.proxy.delay(delay);
    }

    /// Leads the proxy to the new primary.
    pub fn lead_over(&self) {
        self.proxy.lead_to(&self.replica().address());
    }

    fn replica(&self) -> &OwnPostgres {
        self.replica.as_ref().expect("`lag` makes the replica")
    }
}

/// Runs a test once, or as often as `INBOX_ROUNDS` says, and prints how long each round took.
pub async fn in_rounds(test: impl AsyncFn()) {
    let rounds = std::env::var("INBOX_ROUNDS").ok();
    let rounds: u32 = rounds.map_or(1, |text| text.parse().expect("INBOX_ROUNDS is a number"));
    for round in 1..=rounds {
        let began = Instant::now();
        test().await;
        println!("round {round} of {rounds}: {:.1} s", began.elapsed().as_secs_f64());
    }
}
