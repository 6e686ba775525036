//! What whoever reaches an intake can do without a secret: it keeps nobody out for long, and takes no more memory than is
//! written here.

use std::{
    io::ErrorKind::WouldBlock,
    time::{Duration, Instant},
};

use sqlx::Postgres;
use tests::{
    SOON, Schema, Services, Worker, eventually,
    intake::{
        Client, EFFECTS, Server, config,
        scenarios::{SECRET, envelope, id, packed},
    },
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use xtask::server::free_ports;

use super::hostile_records::{USUAL_BYTES, most};
use crate::programs::WORKER;

async fn schema() -> Schema {
    let schema = Services::from_env().schema().await;
    inbox_consumer::migrate::<Postgres>(&config("any", &schema.url())).await.unwrap();
    schema.run(EFFECTS).await;
    schema
}

/// Requests without end, whose answers nobody reads, until the server takes no more of them.
async fn unread(server: &Server) -> TcpStream {
    let requests = b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    loop {
        let mut rest = &*requests;
        while !rest.is_empty() {
            // A server that is slow is not stuck.
            match timeout(Duration::from_secs(1), stream.write(rest)).await {
                Ok(Ok(written)) => rest = &rest[written..],
                _ => return stream,
            }
        }
    }
}

/// They give way to who comes, long before their time to read is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_never_read_keep_nobody_out() {
    const MAX: u16 = 16;
    let schema = schema().await;
    let mut config = config("slots", &schema.url());
    config.intake.connections_max = MAX;
    config.intake.request_timeout = Duration::from_mins(5);
    let server = Server::start::<Postgres>(config).await;
    let mut held = Vec::new();
    for _ in 0..MAX {
        held.push(unread(&server).await);
    }
    let begun = Instant::now();
    let answer = timeout(SOON, server.client().envelope(&envelope(&id(), "a", 1, ""))).await;
    assert_eq!(answer.expect("nobody else is answered").event(), "applied");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(held);
    server.stop().await;
}

/// Where nobody needs its place, it is ended when its time to read is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_never_reads_is_ended() {
    let schema = schema().await;
    let mut config = config("unread", &schema.url());
    config.intake.request_timeout = Duration::from_secs(2);
    let server = Server::start::<Postgres>(config).await;
    let stream = unread(&server).await;
    let ended = async || stream.try_write(b"GET").is_err_and(|it| it.kind() != WouldBlock);
    eventually(SOON, "it is ended", ended).await;
    server.stop().await;
}

/// Idle connections give way to who comes, and lose nothing by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_ask_nothing_give_way() {
    let schema = schema().await;
    let mut config = config("idle", &schema.url());
    config.intake.connections_max = 4;
    let server = Server::start::<Postgres>(config).await;
    let mut held = Vec::new();
    for _ in 0..12 {
        held.push(TcpStream::connect(server.address).await.unwrap());
    }
    let answer = timeout(SOON, server.client().envelope(&envelope(&id(), "a", 1, ""))).await;
    assert_eq!(answer.expect("nobody else is answered").event(), "applied");
    drop(held);
    server.stop().await;
}

/// Bodies that are a thousand times as large once they are unpacked: below and above what a body may have, many at once.
/// What comes out is what may arrive in a process, with twice what one body may have of each that gives way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_unpack_to_a_thousand_times_as_much_take_little_memory() {
    const BODY: usize = 64 << 20;
    let schema = schema().await;
    let [port] = free_ports().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut command = WORKER.command();
    command
        .arg("run")
        .env("INBOX_CONSUMER__NAME", "bombs")
        .env("INBOX_DATABASE__URL", schema.url())
        .env("INBOX_INTAKE__LISTEN", &address)
        .env("INBOX_INTAKE__BODY_BYTES_MAX", "16MiB")
        .env("INBOX_INTAKE__ARRIVING_BYTES_MAX", "16MiB")
        .env("INBOX_HTTP__LISTEN", "off")
        .current_dir(std::env::temp_dir());
    let mut process = Worker::spawn(&mut command);
    eventually(SOON, "it listens", async || TcpStream::connect(&address).await.is_ok()).await;
    let (large, largest) = (packed(&vec![b' '; BODY / 4 - 1]), packed(&vec![b' '; BODY]));
    let client = Client::new(&address);
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let send = |body: &Vec<u8>| client.send(&headers, body.clone());
    let answers = futures::future::join_all((0..32).map(|n| send([&large, &largest][n % 2]))).await;
    for (n, answer) in answers.iter().enumerate() {
        let wanted: &[u16] = if n % 2 == 0 { &[400, 503] } else { &[413, 503] };
        assert!(wanted.contains(&answer.status), "{n}: {answer:?}");
    }
    let alone = send(&largest).await;
    assert_eq!(alone.status, 413, "{alone:?}");
    assert!(process.running(), "{}", process.log());
    let most = most(process.pid());
    let wanted = USUAL_BYTES + 2 * BODY;
    println!("at most {} MB", most >> 20);
    assert!(most < wanted, "{} MB, not {} MB", most >> 20, wanted >> 20);
    process.terminate();
    assert!(process.ended(SOON).await.success(), "{}", process.log());
}

/// Bodies in chunks of one byte, none of them whole: they take what they hold, and not a piece of memory for each chunk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_in_chunks_of_one_byte_take_little_memory() {
    const CONNECTIONS: u64 = 16;
    const BODY: usize = (1 << 20) - 100;
    let schema = schema().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), SECRET).unwrap();
    let [port] = free_ports().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut command = WORKER.command();
    command
        .arg("run")
        .env("INBOX_CONSUMER__NAME", "chunks")
        .env("INBOX_DATABASE__URL", schema.url())
        .env("INBOX_INTAKE__LISTEN", &address)
        .env("INBOX_INTAKE__SECRET_FILES", secret.path())
        .env("INBOX_HTTP__LISTEN", "off")
        .current_dir(std::env::temp_dir());
    let mut process = Worker::spawn(&mut command);
    eventually(SOON, "it listens", async || TcpStream::connect(&address).await.is_ok()).await;
    let head = "POST /events HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bytes = [head.as_bytes(), &b"1\r\nx\r\n".repeat(BODY)].concat();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        timeout(SOON, stream.write_all(&bytes)).await.expect("it is read").unwrap();
        held.push(stream);
    }
    sleep(Duration::from_secs(1)).await;
    assert!(process.running(), "{}", process.log());
    let most = most(process.pid());
    let wanted = USUAL_BYTES + usize::try_from(CONNECTIONS).unwrap() * (4 << 20);
    println!("at most {} MB", most >> 20);
    assert!(most < wanted, "{} MB, not {} MB", most >> 20, wanted >> 20);
    drop(held);
    process.terminate();
    assert!(process.ended(SOON).await.success(), "{}", process.log());
}
