//! A request as a client of a lesson's web service makes it, without a client library.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::Error;

/// Sends a request; answers the status and the body.
pub async fn request(
    address: SocketAddr,
    verb: &str,
    path: &str,
    json: &str,
) -> Result<(u16, String), Error> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        json.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(json.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| Error::new("the answer has no head"))?;
    let status = head.split(' ').nth(1).ok_or_else(|| Error::new("the answer has no status"))?;
    Ok((status.parse()?, body.to_owned()))
}
