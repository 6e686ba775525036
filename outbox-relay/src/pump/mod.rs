//! The loop between feed and sink.
//!
//! One task has the turn. It carries out what the planner (`outbox-planner`) decides: reads, claims, calls, stores, each a
//! future of its own. Beside it run the keeper of the lease, the listener, and the pruner. Nothing is open in the database
//! while a destination is waited for.

mod active;
mod backoff;
mod calls;
mod driver;
mod fencings;
mod floor;
mod kafka;
mod kafka_events;
mod keeper;
mod missing_topics;
mod outcomes;
mod pruner;
#[cfg_attr(not(feature = "opentelemetry"), path = "no_publish_span.rs")]
mod publish_span;
mod reader;
mod routing;
mod session;
mod settings;
mod sharing;
mod standby;
mod storing;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::{
    destination::Destination,
    format::Format,
    port::{Owners, Sessions, Turn, WakeSignals},
    routes::Routes,
    sink::SinkSettings,
    telemetry::{Counters, Meters, Signal, Troubles},
};
use backoff::Backoff;
pub(crate) use session::LazySession;

/// Why the loop ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PumpEnd {
    Shutdown,
    /// The batch that was under way took too long; its rows are read again by whoever comes next.
    CutShort,
    KafkaFatal(String),
}

/// How a turn ended.
#[derive(Debug)]
enum TurnEnd {
    /// The relay ends.
    Ended(PumpEnd),
    /// Another has the turn, or nobody.
    Lost,
    /// The database went back to an older state: what it says of this turn may be older, too.
    WentBack,
}

/// How failed events are tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryRules {
    pub(crate) attempts_max: u32,
    pub(crate) delay_min: Duration,
    pub(crate) delay_max: Duration,
    /// Longest delay between two probes of what is out.
    pub(crate) outage_delay_max: Duration,
}

/// What the loop needs to know.
#[derive(Clone, Debug)]
pub(crate) struct PumpOptions {
    pub(crate) holder: String,
    pub(crate) lease: Duration,
    pub(crate) format: Format,
    pub(crate) events_max: usize,
    pub(crate) bytes_max: usize,
    /// Zero: never.
    pub(crate) poll_interval: Duration,
    pub(crate) retention: Duration,
    pub(crate) prune_interval: Duration,
    pub(crate) prune_chunk: u32,
    pub(crate) outage_delay_max: Duration,
    pub(crate) shutdown_deadline: Duration,
    /// Other relays have shards of their own beside this one, as far as the database allows that.
    pub(crate) shared: bool,
    /// What the transactional id begins with; `None`: no fencing.
    pub(crate) fencing: Option<String>,
    pub(crate) sink: SinkSettings,
    pub(crate) routes: Routes,
    /// Where events go besides Kafka, in the order of the routes' numbers.
    pub(crate) destinations: Vec<Destination>,
    pub(crate) retry: RetryRules,
}

/// Everything that the tasks of a relay share.
pub(crate) struct Pump<F: Sessions> {
    pub(crate) options: PumpOptions,
    pub(crate) settings: F::Settings,
    pub(crate) signals: WakeSignals,
    pub(crate) counters: Arc<Counters>,
    pub(crate) meters: Arc<Meters>,
    /// Becomes true when the relay is asked to end.
    pub(crate) asked: watch::Receiver<bool>,
}

impl<F: Owners> Pump<F> {
    /// Takes turns until it is asked to end.
    pub(crate) async fn run(&self) -> PumpEnd {
        let mut session = LazySession::<F>::new(self.settings.clone());
        loop {
            let Some(lease) = self.stand_by(&mut session).await else {
                return PumpEnd::Shutdown;
            };
            self.counters.turns.add(1);
            self.meters.has_turn(lease.until.clone());
            Signal::Active { fence: lease.turn.fence }.emit();
            let end = self.have_turn(&lease, &mut session).await;
            self.meters.turn_is_over();
            if let Some(end) = end {
                return end;
            }
        }
    }
}

impl<F: Sessions> Pump<F> {
    /// Whether the relay was asked to end.
    fn is_ending(&self) -> bool {
        *self.asked.borrow()
    }

    /// Resolves when the relay is asked to end.
    async fn wait_for_shutdown(&self) {
        let mut asked = self.asked.clone();
        if asked.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await; // nobody is left who could ask
        }
    }

    /// Waits; `false` when it was cut short by a shutdown.
    async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.wait_for_shutdown() => false,
        }
    }

    /// A delay that grows with each failure.
    fn backoff(&self) -> Backoff {
        Backoff::new(self.options.outage_delay_max)
    }

    /// Where what goes wrong is told.
    fn troubles(&self) -> &Troubles {
        &self.options.sink.troubles
    }

    /// What a producer is made with.
    fn sink_settings(&self, turn: Turn) -> SinkSettings {
        let mut settings = self.options.sink.clone();
        let id = |prefix: &String| {
            let outbox = turn.outbox_id.simple();
            // Seats have producers of their own.
            if turn.seat == 1 {
                format!("{prefix}-{outbox}")
            } else {
                format!("{prefix}-{outbox}-{}", turn.seat)
            }
        };
        settings.transactional_id = self.options.fencing.as_ref().map(id);
        settings
    }

    /// Tells that the database is out.
    fn database_out(&self, error: String) {
        self.counters.outages.add(1);
        self.troubles().database_out(error);
    }
}

/// Resolves then; never, if there is no such time.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

async fn pending_or<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
