//! The intake as services see it: a router, a server, and what has to run beside them.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{Router, routing::post};
use futures::FutureExt as _;
use hyper_util::service::TowerToHyperService;
use inbox_runtime::internal::{Direct, DriverEnd};
use inbox_store::internal::port::{OpenError, Owners};
use service_kit::server::{self, Bounds};
use tokio::{net::TcpListener, sync::watch};

use crate::{
    body::Arrivals,
    queue::Queue,
    request::{EVENTS, Shared, events, unknown},
    settings::IntakeSettings,
};

/// After a fault of what releases parked events it begins anew.
const RELEASE_AGAIN: Duration = Duration::from_secs(5);
/// Of each connection, for what was read and what is to be written.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// What connections may take to end once all answers are given.
const END_MAX: Duration = Duration::from_secs(5);
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
        Ok(Self {
            shared: Arc::new(Shared {
                direct,
                queue,
                arrivals: Arrivals::new(settings.arriving_bytes_max),
                settings,
                finished: watch::Sender::new(false),
            }),
        })
    }

    /// `POST /events`. [`Intake::run`] has to run beside it.
    pub fn router(&self) -> Router {
        Router::new().route(EVENTS, post(events::<DB>)).with_state(Arc::clone(&self.shared))
    }

    /// Serves the router on a listener until `shutdown` resolves; then takes no more, and ends when what was taken is
    /// answered. [`Intake::run`] has to run beside it.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let settings = &self.shared.settings;
        let bounds = Bounds {
            connections_max: settings.connections_max,
            answering_max: None,
            head_max: settings.request_timeout,
            answer_max: settings.request_timeout,
            keeps_open: true,
            buffer_bytes_max: BUFFER_BYTES_MAX,
            end_max: END_MAX,
        };
        let finish = async {
            shutdown.await;
            self.finish().await;
        };
        let router = self.router().fallback(unknown).method_not_allowed_fallback(unknown);
        server::serve(listener, bounds, TowerToHyperService::new(router), finish).await;
    }

    /// Takes no more, and waits until what was taken is answered. For services that serve the router themselves;
    /// [`Intake::serve`] does it.
    pub async fn finish(&self) {
        self.shared.direct.end();
        self.shared.queue.finish().await;
        self.shared.finished.send_replace(true);
    }

    /// Releases parked events when they are due, or when somebody asks, and reads the secrets again. Runs until
    /// [`Intake::finish`], and until what it has begun has ended, or until it is dropped.
    pub async fn run(&self) {
        tokio::select! {
            () = self.release_parked() => {}
            () = self.refresh_secrets() => {}
        }
    }

    async fn release_parked(&self) {
        let direct = &self.shared.direct;
        loop {
            let (mut driver, control, mut events) = direct.driver();
            let mut finished = self.shared.finished.subscribe();
            let finished = async {
                let _ = finished.wait_for(|finished| *finished).await; // its sender is here
            };
            let end = AssertUnwindSafe(driver.run(&mut events, finished)).catch_unwind().await;
            let end = end.unwrap_or_else(|_| DriverEnd::Panicked("it panicked".into()));
            control.wait_until_idle().await;
            control.sessions.close().await;
            let (DriverEnd::Fatal(error) | DriverEnd::Panicked(error)) = end else {
                return direct.leave().await;
            };
            let reason = format!("the task that releases parked intake events ended: {error}");
            Direct::<DB>::tell_doubt(reason);
            tokio::time::sleep(RELEASE_AGAIN).await;
        }
    }

    /// Beside the releases: a secret that was taken away is valid no longer than it has to be, however long those take.
    async fn refresh_secrets(&self) {
        let Some(secrets) = &self.shared.settings.secrets else {
            return std::future::pending().await;
        };
        let mut told = None;
        loop {
            tokio::time::sleep(REFRESH_EVERY).await;
            let wrong = secrets.refresh().err();
            if let Some(error) = wrong.as_ref().filter(|_| wrong != told) {
                let doubt = format!("{error}; the previous secrets stay in use");
                Direct::<DB>::tell_doubt(doubt);
            }
            told = wrong;
        }
    }

    /// Closes idle connections to the database.
    #[doc(hidden)]
    pub async fn close(&self) {
        self.shared.direct.close().await;
    }
}
