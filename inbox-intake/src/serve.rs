//! A server for the router: HTTP/1.1, so many connections and no more, each with a time for its heads.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};

/// After a failure to accept: it is out of file descriptors, or a client went away.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// What a connection may take to end once all answers are given.
const END_MAX: Duration = Duration::from_secs(5);

/// Serves until `finish` resolves, which begins when the process is to end: answers are given until then.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    (connections_max, head_timeout): (usize, Duration),
    finish: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    let (end, ending) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut finish = pin!(finish);
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = &mut finish => break,
            accepted = accept => accepted,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let (router, ending) = (router.clone(), ending.clone());
        connections.spawn(async move {
            converse(stream, router, head_timeout, ending).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = end.send(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    // Whoever does not read its answer is not waited for.
    let _ = tokio::time::timeout(END_MAX, ended).await;
}

async fn converse(
    stream: TcpStream,
    router: Router,
    head_timeout: Duration,
    mut ending: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut told = false;
    loop {
        tokio::select! {
            // What a client does wrong is between it and HTTP.
            _ = served.as_mut() => return,
            _ = ending.wait_for(|ending| *ending), if !told => {
                told = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}
