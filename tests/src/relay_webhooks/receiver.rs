//! A receiver that costs little, on a thread of its own. It remembers which events it has accepted, and in what order.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    task::{JoinHandle, JoinSet},
};

/// Events that are accepted before the clock starts.
pub(super) const WARM: usize = 500;

/// What an event says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Numbered {
    pub(super) aggregate: usize,
    /// From 1 on within its aggregate.
    pub(super) n: usize,
}

/// How a receiver answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// How long each answer takes.
    pub(super) time: Duration,
    /// What it answers 500.
    pub(super) refused: Option<Numbered>,
}

/// What a receiver has accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    aggregates: Vec<Aggregate>,
    /// Events, without copies.
    pub(super) events: usize,
    /// Acceptances of what was accepted before.
    pub(super) copies: usize,
    /// Events that were accepted behind a later one of their aggregate.
    pub(super) reordered: usize,
    /// Answers 500.
    pub(super) refusals: usize,
    /// When the first event came, the last of those before the clock starts, and the latest.
    pub(super) first: Option<Instant>,
    warm: Option<Instant>,
    latest: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct Aggregate {
    accepted: Vec<bool>,
    highest: usize,
}

impl Ledger {
    fn accept(&mut self, event: Numbered) {
        let Numbered { aggregate, n } = event;
        if self.aggregates.len() <= aggregate {
            self.aggregates.resize_with(aggregate + 1, Aggregate::default);
        }
        let of = &mut self.aggregates[aggregate];
        if of.accepted.len() <= n {
            of.accepted.resize(n + 1, false);
        }
        if std::mem::replace(&mut of.accepted[n], true) {
            self.copies += 1;
            return;
        }
        if n < of.highest {
            self.reordered += 1;
        }
        of.highest = n.max(of.highest);
        self.events += 1;
        let now = Instant::now();
        self.first.get_or_insert(now);
        if self.events == WARM {
            self.warm = Some(now);
        }
        self.latest = Some(now);
    }

    /// How many events were accepted of an aggregate.
    pub(super) fn of(&self, aggregate: usize) -> usize {
        let of = self.aggregates.get(aggregate);
        of.map_or(0, |of| of.accepted.iter().filter(|accepted| **accepted).count())
    }

    /// Events a second since the clock started.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn rate(&self) -> f64 {
        let time = self.warm.zip(self.latest).map(|(warm, latest)| latest - warm);
        let time = time.expect("enough was accepted to measure it").as_secs_f64();
        (self.events - WARM) as f64 / time.max(0.001)
    }

    /// How long ago the clock started.
    pub(super) fn running(&self) -> Duration {
        self.warm.map_or(Duration::ZERO, |warm| warm.elapsed())
    }
}

/// Takes events on a port, which may be closed and opened again.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    desk: Arc<Desk>,
    runtime: Option<Runtime>,
    /// Nobody listens without it.
    task: Option<JoinHandle<()>>,
}

struct Desk {
    manner: Manner,
    ledger: Mutex<Ledger>,
    connections: AtomicU64,
}

impl Receiver {
    pub(super) async fn start(manner: Manner) -> Self {
        // Not on the threads of a loop by hand, which would save it what a receiver elsewhere costs.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let desk =
            Arc::new(Desk { manner, ledger: Mutex::default(), connections: AtomicU64::default() });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let (address, task) = listen(&runtime, address, Arc::clone(&desk), true).await;
        Self { address, desk, runtime: Some(runtime), task: Some(task) }
    }

    /// Closes the port and all connections. With `accepts` it takes connections and closes them at once.
    pub(super) async fn close(&mut self, accepts: bool) {
        if let Some(task) = self.task.take() {
            task.abort();
            // The port is free when it has ended.
            drop(task.await);
        }
        if accepts {
            self.listen(false).await;
        }
    }

    /// Takes events again.
    pub(super) async fn open(&mut self) {
        self.close(false).await;
        self.listen(true).await;
    }

    async fn listen(&mut self, serves: bool) {
        let runtime = self.runtime.as_ref().expect("it has one until it is dropped");
        let (_, task) = listen(runtime, self.address, Arc::clone(&self.desk), serves).await;
        self.task = Some(task);
    }

    /// Connections that came until now.
    pub(super) fn connections(&self) -> u64 {
        self.desk.connections.load(Ordering::Relaxed)
    }

    /// Reads what it has accepted.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        self.desk.with(|ledger| read(ledger))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Connections end with the task.
async fn listen(
    runtime: &Runtime,
    address: SocketAddr,
    desk: Arc<Desk>,
    serves: bool,
) -> (SocketAddr, JoinHandle<()>) {
    let bound = runtime.spawn(TcpListener::bind(address)).await.expect("a bound port");
    let listener = bound.expect("a free port");
    let address = listener.local_addr().expect("a listener has an address");
    let task = runtime.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((connection, _)) = listener.accept().await {
            desk.connections.fetch_add(1, Ordering::Relaxed);
            if serves {
                connections.spawn(serve(connection, Arc::clone(&desk)));
            }
            while connections.try_join_next().is_some() {}
        }
    });
    (address, task)
}

async fn serve(connection: TcpStream, desk: Arc<Desk>) {
    drop(connection.set_nodelay(true));
    let answers = service_fn(|request| desk.answer(request));
    // It ends with an error where the other side is killed.
    drop(http1::Builder::new().serve_connection(TokioIo::new(connection), answers).await);
}

impl Desk {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Empty<Bytes>>, Infallible> {
        let mut response = Response::new(Empty::new());
        *response.status_mut() = match request.into_body().collect().await {
            Ok(body) => self.take(&body.to_bytes()),
            Err(_) => StatusCode::BAD_REQUEST,
        };
        if !self.manner.time.is_zero() {
            tokio::time::sleep(self.manner.time).await;
        }
        Ok(response)
    }

    fn take(&self, body: &[u8]) -> StatusCode {
        let Ok(event) = serde_json::from_slice::<Numbered>(body) else {
            return StatusCode::BAD_REQUEST;
        };
        self.with(|ledger| {
            if self.manner.refused == Some(event) {
                ledger.refusals += 1;
                return StatusCode::INTERNAL_SERVER_ERROR;
            }
            ledger.accept(event);
            StatusCode::OK
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Ledger) -> T) -> T {
        work(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_reordered_events_are_counted() {
        let mut ledger = Ledger::default();
        for n in [1, 2, 2, 4, 3, 5] {
            ledger.accept(Numbered { aggregate: 7, n });
        }
        assert_eq!((ledger.events, ledger.copies, ledger.reordered), (5, 1, 1));
        assert_eq!((ledger.of(7), ledger.of(6), ledger.of(8)), (5, 0, 0));
    }
}
