//! Webhooks the whole way: what a relay keeps, and says, of what a receiver answers.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tests::{Outbox, SOON, Worker, eventually, until_some};
use xtask::server::free_ports;

use super::{commands::ran, observed::asked};
use crate::programs::RELAY;

const TOKEN: &str = "c4n4ry/t0k3n+x";
/// As it is, and as programs that write JSON and URLs send it back.
const ECHO: &str = "c4n4ry/t0k3n+x c4n4ry\\/t0k3n+x c4n4ry%2Ft0k3n%2bx";

/// Answers each call with what it was called with: no to the aggregate `refused`, later to `failing`, and to others that
/// the token is not taken. Answers its address, and how often it was called with the token.
fn receiver() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let calls = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &counted);
        }
    });
    (address, calls)
}

/// Reads a request; answers its head.
fn read_request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|text| text.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    head
}

fn answer(mut stream: TcpStream, calls: &AtomicUsize) {
    let head = read_request(&stream);
    if head.contains(&format!("authorization: bearer {TOKEN}")) {
        calls.fetch_add(1, Ordering::Relaxed);
    }
    let status = match head.lines().find_map(|line| line.strip_prefix("aggregate-id: ")) {
        Some("refused") => "302 Found",
        Some("failing") => "503 Service Unavailable",
        _ => "401 Unauthorized",
    };
    let length = ECHO.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nlocation: https://h/?t={ECHO}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{ECHO}"
    );
    drop(stream.write_all(answer.as_bytes()));
}

/// A receiver that answers 500 until the flag is set.
fn failing_receiver() -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let works = Arc::<AtomicBool>::default();
    let asked = Arc::clone(&works);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            read_request(&stream);
            let works = asked.load(Ordering::Relaxed);
            let status = if works { "204 No Content" } else { "500 Internal Server Error" };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    (address, works)
}

/// While a destination fails, beside a Kafka that works, every command and the health port name it; afterwards none does.
#[tokio::test]
async fn a_destination_that_fails_is_shown_while_it_fails() {
    let (address, works) = failing_receiver();
    let mut outbox = Outbox::set("failing", 1).await;
    let [port] = free_ports().unwrap();
    let port = SocketAddr::from(([127, 0, 0, 1], port));
    outbox.config.http.listen = port.to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.toml");
    let text = format!(
        "[[routes]]\naggregate_type = \"Order\"\nto = \"kafka\"\n[[routes]]\nto = \"shop\"\n\
         [[webhooks]]\nname = \"shop\"\nurl = \"http://{address}/in\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let command = || -> Command {
        let mut command = outbox.command(&RELAY);
        command.env("OUTBOX_CONFIG", &file);
        command
    };
    for aggregate in ["a", "b", "c", "d"] {
        outbox.append(aggregate, 1, 7).await;
    }
    let relay = Worker::spawn(command().arg("run"));
    relay.printed(SOON, "destination shop (http://").await;
    let answered = "500 Internal Server Error";
    for (args, begins) in [
        ("status", "destination down  shop (http://"),
        ("status --json", "\"destination\": \"shop (http://"),
        ("failed list", "destination shop (http://"),
        ("failed list --json", "\"destination\": \"shop (http://"),
        ("check", "destination shop (http://"),
    ] {
        let what = format!("`{args}` names it");
        let text = until_some(SOON, &what, async || {
            let (_, out, err) = ran(command(), args).await;
            let text = out + &err;
            text.contains(begins).then_some(text)
        })
        .await;
        assert!(text.contains(answered), "{args}: {text}");
    }
    let reason = until_some(SOON, "the relay is not ready", async || {
        tokio::net::TcpStream::connect(port).await.ok()?;
        let (status, body) = asked(port, "/health/ready").await;
        (status == 503).then_some(body)
    });
    let reason = reason.await;
    assert!(reason.contains("\"destination_outage\"") && reason.contains(answered), "{reason}");

    works.store(true, Ordering::Relaxed);
    outbox.drained(SOON).await;
    eventually(SOON, "nothing names it any more", async || {
        let (_, status, _) = ran(command(), "status").await;
        let (_, list, _) = ran(command(), "failed list").await;
        let ready = asked(port, "/health/ready").await.0 == 200;
        ready
            && status.contains("destination down  0")
            && list.trim() == "no row is parked or in retry"
    })
    .await;
}

/// A secret that a receiver sends back is in no row, no line of the log, no metric and no command's answer.
#[tokio::test]
async fn a_secret_that_a_receiver_sends_back_goes_nowhere() {
    let (address, calls) = receiver();
    let mut outbox = Outbox::set("canary", 1).await;
    let [port] = free_ports().unwrap();
    let port = SocketAddr::from(([127, 0, 0, 1], port));
    outbox.config.http.listen = port.to_string();
    let folder = tempfile::tempdir().unwrap();
    let (token, file) = (folder.path().join("token"), folder.path().join("relay.toml"));
    std::fs::write(&token, TOKEN).unwrap();
    let text = format!(
        "[[routes]]\nto = \"shop\"\n[[webhooks]]\nname = \"shop\"\nurl = \"http://{address}/in\"\nbearer_file = {token:?}\n"
    );
    std::fs::write(&file, text).unwrap();
    let command = || -> Command {
        let mut command = outbox.command(&RELAY);
        command.env("OUTBOX_CONFIG", &file).env("OUTBOX_LOG__LEVEL", "debug");
        command
    };
    let relay = Worker::spawn(command().arg("run"));
    outbox.append("refused", 1, 2).await;
    outbox.append("failing", 1, 2).await;
    let errors = "SELECT string_agg(error, ' ') FROM outbox_parked HAVING count(error) = 2";
    let errors = until_some(SOON, "both have an error", async || {
        sqlx::query_scalar::<_, String>(errors).fetch_optional(outbox.schema.pool()).await.unwrap()
    });
    let mut shown = vec![errors.await];
    assert!(shown[0].contains("302 Found") && shown[0].contains("503"), "{shown:?}");
    outbox.append("other", 1, 1).await;
    relay.printed(SOON, "answered 401").await;
    eventually(SOON, "the port answers", async || {
        tokio::net::TcpStream::connect(port).await.is_ok()
    })
    .await;
    for path in ["/metrics", "/health/ready"] {
        shown.push(asked(port, path).await.1);
    }
    for args in [
        "failed list",
        "failed list --json",
        "failed show 1",
        "failed show 1 --json",
        "failed show 3",
        "status",
        "status --json",
        "check",
    ] {
        let (_, out, err) = ran(command(), args).await;
        assert!(!out.is_empty(), "{args}: {err}");
        shown.extend([out, err]);
    }
    shown.push(relay.log());
    assert!(calls.load(Ordering::Relaxed) >= 3, "the receiver was called with the token");
    for text in shown {
        assert!(!text.contains("c4n4ry") && !text.contains("t0k3n"), "{text}");
    }
}
