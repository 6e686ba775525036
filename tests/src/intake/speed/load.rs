//! The load: requests that are made before the clock starts, on connections that stay open.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use uuid::Uuid;

use super::Course;

/// Accounts, each an aggregate.
const ACCOUNTS: usize = 10_000;

/// The requests of each connection.
pub(super) struct Load(Vec<Vec<Request>>);

struct Request {
    /// When it is to be sent, after the beginning; otherwise as soon as the one before is answered.
    due: Option<Duration>,
    bytes: Vec<u8>,
}

impl Load {
    pub(super) fn of(course: Course) -> Self {
        let Course { events, connections, per_request, rate, .. } = course;
        let mut all: Vec<_> = (0..connections).map(|_| Vec::new()).collect();
        let numbers: Vec<usize> = (1..=events).collect();
        for (at, numbers) in numbers.chunks(per_request).enumerate() {
            let due = rate.map(|rate| Duration::from_secs((at * per_request) as u64) / rate);
            all[at % connections].push(Request { due, bytes: request(numbers) });
        }
        Self(all)
    }

    /// Sends everything; answers how long all of it took, and each request.
    pub(super) async fn send(self, address: SocketAddr) -> (Duration, Vec<Duration>) {
        let mut streams = Vec::new();
        for requests in self.0 {
            let stream = TcpStream::connect(address).await.expect("the receiver listens");
            stream.set_nodelay(true).expect("a socket");
            streams.push((stream, requests));
        }
        let begun = Instant::now();
        let mut sending = JoinSet::new();
        for (stream, requests) in streams {
            sending.spawn(converse(stream, requests, begun));
        }
        let mut waits = Vec::new();
        while let Some(sent) = sending.join_next().await {
            waits.extend(sent.expect("each request is taken"));
        }
        (begun.elapsed(), waits)
    }
}

fn request(numbers: &[usize]) -> Vec<u8> {
    let event = |n: &usize| {
        json!({
            "event_id": Uuid::now_v7().to_string(), "event_type": "Deposited", "aggregate_type": "Account",
            "aggregate_id": (n * 7919 % ACCOUNTS).to_string(),
            "payload": { "account": n * 7919 % ACCOUNTS, "amount": n },
        })
    };
    let body = match numbers {
        [one] => event(one),
        many => many.iter().map(event).collect(),
    };
    let body = body.to_string();
    format!(
        "POST /events HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// When a request is sent. One that the answer before holds up counts from the time that it was due.
async fn start(due: Option<Duration>, begun: Instant) -> Instant {
    match due.map(|due| begun + due) {
        Some(due) if due > Instant::now() => {
            tokio::time::sleep_until(due.into()).await;
            Instant::now()
        }
        Some(due) => due,
        None => Instant::now(),
    }
}

/// One request after the other; nothing but 200 is an answer. Answers how long each took.
async fn converse(mut stream: TcpStream, requests: Vec<Request>, begun: Instant) -> Vec<Duration> {
    let (mut read, mut waits) = (Vec::new(), Vec::with_capacity(requests.len()));
    for request in requests {
        let sent = start(request.due, begun).await;
        stream.write_all(&request.bytes).await.expect("the connection stays");
        read.clear();
        let (head, length) = loop {
            let count = stream.read_buf(&mut read).await.expect("the connection stays");
            assert!(count > 0, "the receiver closed the connection");
            let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 200"), "{head}");
            let length = head.split("content-length:").nth(1).map_or("0", str::trim);
            let length = length.split("\r\n").next().and_then(|length| length.trim().parse().ok());
            break (end + 4, length.unwrap_or(0_usize));
        };
        while read.len() < head + length {
            let count = stream.read_buf(&mut read).await.expect("the connection stays");
            assert!(count > 0, "the receiver closed the connection");
        }
        waits.push(sent.elapsed());
    }
    waits
}
