//! Looking at a consumer from outside, on the four channels that an operator has, until each has a name for what is
//! wrong.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
    time::{sleep, timeout},
};

use super::program::Program;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// An answer of HTTP that takes longer is none.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What one look has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The text as it came; of `status` what it complained of.
    pub(super) text: String,
    /// The same, or of `status` its result, when it is JSON.
    pub(super) json: Value,
}

/// The name that somebody finds in what is seen.
pub(super) type Look = Box<dyn Fn(&Seen) -> Option<String> + Send + Sync>;

/// What to look for on each channel.
pub(super) struct Wanted {
    /// Nothing where readiness has nothing to say of it.
    pub(super) ready: Option<Look>,
    pub(super) metrics: Look,
    pub(super) status: Look,
    /// Given one line after the other; nothing where the log says nothing.
    pub(super) log: Option<Look>,
}

/// A name, and when a channel said it first.
#[derive(Clone, Debug, Serialize)]
pub struct Sighting {
    /// The name.
    pub name: String,
    /// Seconds since the fault.
    pub seconds: f64,
}

/// Where the log ends now: what is written from here on is looked at.
#[derive(Clone, Debug)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) fn now(program: &Program) -> Self {
        Self(std::fs::metadata(program.log()).map_or(0, |it| it.len()))
    }
}

/// Looks until every channel has named it, or `patience` is over; seconds count from `began`.
pub(super) async fn watch(
    program: &Program,
    wanted: &Wanted,
    (began, mark): (Instant, &Mark),
    patience: Duration,
) -> BTreeMap<&'static str, Sighting> {
    let until = began + patience;
    let (ready, metrics, status, log) = tokio::join!(
        sighted(began, until, wanted.ready.as_ref(), async || http(program, "/health/ready").await),
        sighted(began, until, Some(&wanted.metrics), async || http(program, "/metrics").await),
        sighted(began, until, Some(&wanted.status), async || status(program).await),
        in_log(program, mark, began, until, wanted.log.as_ref()),
    );
    let all = [("ready", ready), ("metrics", metrics), ("status", status), ("log", log)];
    all.into_iter().filter_map(|(channel, seen)| seen.map(|it| (channel, it))).collect()
}

async fn sighted(
    began: Instant,
    until: Instant,
    look: Option<&Look>,
    mut see: impl AsyncFnMut() -> Seen,
) -> Option<Sighting> {
    let look = look?;
    while Instant::now() < until {
        // What takes too long is dropped, and its process with it.
        let seen = timeout(until.saturating_duration_since(Instant::now()), see()).await;
        if let Some(name) = seen.ok().and_then(|seen| look(&seen)) {
            return Some(Sighting { name, seconds: began.elapsed().as_secs_f64() });
        }
        sleep(PAUSE).await;
    }
    None
}

/// Whether the log says it within `patience`.
pub(super) async fn logged(
    program: &Program,
    look: &Look,
    mark: &Mark,
    patience: Duration,
) -> bool {
    let now = Instant::now();
    in_log(program, mark, now, now + patience, Some(look)).await.is_some()
}

async fn in_log(
    program: &Program,
    mark: &Mark,
    began: Instant,
    until: Instant,
    look: Option<&Look>,
) -> Option<Sighting> {
    let (path, look) = (program.log(), look?);
    while Instant::now() < until {
        for line in lines(path.clone(), mark.0) {
            let json = serde_json::from_str(&line).unwrap_or_default();
            if let Some(name) = look(&Seen { text: line, json }) {
                return Some(Sighting { name, seconds: began.elapsed().as_secs_f64() });
            }
        }
        sleep(PAUSE).await;
    }
    None
}

/// Whole lines from a place on.
fn lines(path: PathBuf, from: u64) -> Vec<String> {
    let read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

/// The body of an answer; nothing while nobody answers.
async fn http(program: &Program, path: &str) -> Seen {
    let text = timeout(ANSWER_MAX, get(program.port, path)).await;
    let text = text.ok().and_then(Result::ok).unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Seen { json: serde_json::from_str(body).unwrap_or_default(), text: body.to_owned() }
}

async fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

async fn status(program: &Program) -> Seen {
    let mut command = Command::from(program.command(&["status", "--json"]));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let Ok(done) = command.output().await else { return Seen::default() };
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    Seen { json: serde_json::from_slice(&done.stdout).unwrap_or_default(), text }
}
