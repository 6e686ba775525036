//! A web service of a lesson, and a request as a client makes it, without a client library.

use std::{io, net::SocketAddr};

use axum::Router;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::Error;

/// A web service that can be down for a while.
pub struct WebServer {
    /// Where it listens.
    pub address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl WebServer {
    /// Starts it; port 0 is any that is free.
    pub async fn start(address: SocketAddr, app: Router) -> Result<Self, Error> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (end, ending) = oneshot::channel::<()>();
        let serving = axum::serve(listener, app).with_graceful_shutdown(async { _ = ending.await });
        Ok(Self { address, end, task: tokio::spawn(serving.into_future()) })
    }

    /// Ends it when it has answered what it was asked.
    pub async fn stop(self) -> Result<(), Error> {
        let _ = self.end.send(());
        Ok(self.task.await??)
    }
}

/// Sends a request; answers the status and the body.
pub async fn request(
    address: SocketAddr,
    verb: &str,
    path: &str,
    json: &str,
) -> Result<(u16, String), Error> {
    request_with(address, verb, path, &[("content-type", "application/json")], json).await
}

/// Sends a request with headers of its own; answers the status and the body.
pub async fn request_with(
    address: SocketAddr,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<(u16, String), Error> {
    let mut stream = TcpStream::connect(address).await?;
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| Error::new("the answer has no head"))?;
    let status = head.split(' ').nth(1).ok_or_else(|| Error::new("the answer has no status"))?;
    Ok((status.parse()?, body.to_owned()))
}
