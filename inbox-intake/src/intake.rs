//! The intake as services see it: a router, a server, and what has to run beside them.

use std::{sync::Arc, time::Duration};

use axum::{Router, routing::post};
use inbox_runtime::internal::Direct;
use inbox_store::internal::port::{OpenError, Owners};
use tokio::net::TcpListener;

use crate::{
    queue::Queue,
    request::{EVENTS, Shared, events, unknown},
    serve::serve,
    settings::IntakeSettings,
};

/// How often parked events are looked for that are due.
const MAINTAIN_EVERY: Duration = Duration::from_secs(1);
/// The same after a failure.
const MAINTAIN_AGAIN: Duration = Duration::from_secs(5);
/// How often secrets are read again.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// Takes events by HTTP. Cheap to clone; clones share their queues.
#[derive(Debug)]
pub struct Intake<DB: Owners> {
    shared: Arc<Shared<DB>>,
}

impl<DB: Owners> Clone for Intake<DB> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<DB: Owners> Intake<DB> {
    /// Finds its place in the database, or makes it.
    #[doc(hidden)]
    pub async fn open(direct: Direct<DB>, settings: IntakeSettings) -> Result<Self, OpenError> {
        direct.open().await?;
        let direct = Arc::new(direct);
        let queue = Arc::new(Queue::new(Arc::clone(&direct), settings.queue));
        Ok(Self { shared: Arc::new(Shared { direct, queue, settings }) })
    }

    /// `POST /events`. [`Intake::run`] has to run beside it.
    pub fn router(&self) -> Router {
        Router::new().route(EVENTS, post(events::<DB>)).with_state(Arc::clone(&self.shared))
    }

    /// Serves the router on a listener until `shutdown` resolves; then takes no more, and ends when what was taken is
    /// answered. [`Intake::run`] has to run beside it.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let settings = &self.shared.settings;
        let limits = (settings.connections_max, settings.request_timeout);
        let finish = async {
            shutdown.await;
            self.shared.queue.finish().await;
        };
        let router = self.router().fallback(unknown).method_not_allowed_fallback(unknown);
        serve(listener, router, limits, finish).await;
    }

    /// Takes no more, and waits until what was taken is answered. For services that serve the router themselves;
    /// [`Intake::serve`] does it.
    pub async fn finish(&self) {
        self.shared.queue.finish().await;
    }

    /// Releases parked events when they are due, or when somebody asks, and reads the secrets again. Runs until it is
    /// dropped.
    pub async fn run(&self) {
        tokio::join!(self.maintain(), self.refresh_secrets());
    }

    async fn maintain(&self) {
        let direct = &self.shared.direct;
        loop {
            let wait = match direct.maintain().await {
                Ok(true) => Duration::ZERO,
                Ok(false) => {
                    direct.tell_maintained();
                    MAINTAIN_EVERY
                }
                Err(error) => {
                    direct.tell_failed(error);
                    MAINTAIN_AGAIN
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Beside the releases: a secret that was taken away is valid no longer than it has to be, however long those take.
    async fn refresh_secrets(&self) {
        let Some(secrets) = &self.shared.settings.secrets else { return };
        let mut told = None;
        loop {
            tokio::time::sleep(REFRESH_EVERY).await;
            let wrong = secrets.refresh().err();
            if let Some(error) = wrong.as_ref().filter(|_| wrong != told) {
                let doubt = format!("{error}; what was there before is used on");
                Direct::<DB>::tell_doubt(doubt);
            }
            told = wrong;
        }
    }

    /// Tells how things are, for metrics and health of a process without Kafka.
    #[doc(hidden)]
    pub fn publish(&self) {
        self.shared.direct.publish(self.shared.queue.is_ending());
    }

    /// Closes idle connections to the database.
    #[doc(hidden)]
    pub async fn close(&self) {
        self.shared.direct.close().await;
    }
}
