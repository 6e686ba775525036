//! The loop between feed and sink.
//!
//! One task has the turn, reads rows in their order, hands them to the sink, waits, marks. Beside it run
//! the keeper of the lease, the listener, and the pruner. Nothing is open in the database while the broker
//! is waited for.

mod active;
mod backoff;
mod dispatch;
mod fencings;
mod floor;
mod keeper;
mod missing_topics;
mod numbering;
mod outgoing;
mod progress;
mod pruner;
#[cfg_attr(not(feature = "opentelemetry"), path = "no_publish_span.rs")]
mod publish_span;
mod rest;
mod round;
mod serve;
mod session;
mod standby;
mod work;

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    destination::Destination,
    format::Format,
    port::{Owners, Sessions, WakeSignals},
    routes::Routes,
    sink::SinkSettings,
    telemetry::{Counters, Meters, Signal, Troubles},
};
use backoff::Backoff;
pub(crate) use dispatch::RetryRules;
pub(crate) use session::LazySession;

/// Why the loop ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PumpEnd {
    Shutdown,
    /// The batch that was under way took too long; its rows are read again by whoever comes next.
    CutShort,
    KafkaFatal(String),
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
            let Some((turn, lease)) = self.stand_by(&mut session).await else {
                return PumpEnd::Shutdown;
            };
            self.counters.turns.add(1);
            self.meters.has_turn(lease.until.clone());
            Signal::Active { fence: turn.fence }.emit();
            let end = self.have_turn(turn, &lease, &mut session).await;
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

    /// Tells that the database is out.
    fn database_out(&self, error: String) {
        self.counters.outages.add(1);
        self.troubles().database_out(error);
    }
}
