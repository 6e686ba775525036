//! Accepts connections of HTTP/1.1, so many and no more. Each has a time for what it asks, and for what it reads: whoever
//! keeps others out with connections that say nothing, or read nothing, does so for that long at most.
//!
//! One story: its files know each other.

mod io;
mod places;

use std::{convert::Infallible, error::Error, pin::pin, sync::Arc, time::Duration};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use io::Watched;
use places::{Place, Places};

/// After a failure to accept: it is out of file descriptors, or a client went away. Neither is ours to mend.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Where none of too many connections may be ended, it is looked again after so long.
const ROOM_AGAIN: Duration = Duration::from_millis(50);

/// What connections may have.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once. For one more the one gives way that has asked nothing for longest, or that reads nothing.
    pub connections_max: usize,
    /// Those of them that are being answered: with more the oldest is given up. `None`: none is, and while all are being
    /// answered who comes waits.
    pub answering_max: Option<usize>,
    /// For the head of a request, and to ask for more after an answer.
    pub head_max: Duration,
    /// To read what is written.
    pub answer_max: Duration,
    /// Whether a connection has more than one request.
    pub keeps_open: bool,
    /// Of each connection, for what was read and what is to be written.
    pub buffer_bytes_max: usize,
    /// When the server ends, for connections whose requests are answered.
    pub end_max: Duration,
}

/// Serves until `finish` resolves; then accepts no more, and ends when what was asked is answered, or when it is dropped.
pub async fn serve<S, B>(
    listener: TcpListener,
    bounds: Bounds,
    service: S,
    finish: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let places = Arc::new(Places::default());
    let (end, ending) = watch::channel(false);
    // Dropped with this future, and the connections with it.
    let mut connections = JoinSet::new();
    let mut finish = pin!(finish);
    'accepting: loop {
        let accepted = tokio::select! {
            biased;
            () = &mut finish => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        while connections.len() >= bounds.connections_max {
            places.make_room(bounds.answering_max.is_some());
            tokio::select! {
                () = &mut finish => break 'accepting,
                _ = tokio::time::timeout(ROOM_AGAIN, connections.join_next()) => {}
            }
        }
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let connection = Connection {
            place: places.taken(),
            places: Arc::clone(&places),
            bounds,
            ending: ending.clone(),
        };
        let service = service.clone();
        connections.spawn(async move { connection.converse(stream, service).await });
    }
    drop(listener);
    end.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    // Whoever does not read its answer is not waited for.
    let _ = tokio::time::timeout(bounds.end_max, ended).await;
}

struct Connection {
    place: Arc<Place>,
    places: Arc<Places>,
    bounds: Bounds,
    ending: watch::Receiver<bool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.places.left(&self.place);
    }
}

impl Connection {
    async fn converse<S, B>(mut self, stream: TcpStream, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Sync,
        S::Future: Send,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let _ = stream.set_nodelay(true);
        let (place, places, bounds) = (&self.place, &self.places, &self.bounds);
        let (service, answering_max) = (&service, bounds.answering_max);
        let answer = service_fn(move |request: Request<Incoming>| {
            places.asked(place, answering_max);
            async move {
                let answer = service.call(request).await;
                place.answered();
                answer
            }
        });
        let mut served = pin!(
            http1::Builder::new()
                .keep_alive(bounds.keeps_open)
                .header_read_timeout(None) // the place has a time for it
                .max_buf_size(bounds.buffer_bytes_max)
                .serve_connection(TokioIo::new(Watched::new(stream, Arc::clone(place))), answer)
        );
        let mut told = false;
        loop {
            tokio::select! {
                // What a client does wrong is between it and HTTP.
                _ = served.as_mut() => return,
                // What it has not read is not kept for it.
                () = place.over(bounds) => return,
                _ = self.ending.wait_for(|ending| *ending), if !told => {
                    told = true;
                    served.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
