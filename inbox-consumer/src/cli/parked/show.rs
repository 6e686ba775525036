//! `parked show`: everything that is known of one parked event.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use inbox_store::internal::port::{
    AuditFilter, AuditRow, Operators, Page, ParkedContent, ParkedFilter, ParkedRow,
};
use service_kit::printed;

use super::super::{
    Exit, Terminal,
    words::{counted, plain, reason, turn},
};
use crate::config::Config;

/// Followers that are listed; the count tells of the others.
const FOLLOWERS_MAX: usize = 20;
/// How far into its queue they are looked for.
const QUEUE_MAX: u32 = 200;
const ACTS_MAX: u32 = 20;
/// How much of a payload a terminal is given; `--json` has all of it.
const SHOWN_MAX: usize = 4096;
const HEX_MAX: usize = 512;

/// One event with all that belongs to it.
pub(super) struct Shown {
    pub(super) row: ParkedRow,
    pub(super) kept: ParkedContent,
    pub(super) followers: Vec<ParkedRow>,
    pub(super) acts: Vec<AuditRow>,
}

pub(super) async fn show<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    (seq, json): (i64, bool),
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let Some(shown) = look::<DB>(conn, config, seq).await? else {
        terminal.complain(missing(seq, &config.consumer.name));
        return Ok(Exit::Refused);
    };
    terminal.say(if json { printed::json(&document(&shown)) } else { rendered(&shown) });
    Ok(Exit::Done)
}

/// Nothing has this number.
pub(super) fn missing(seq: i64, consumer: &str) -> String {
    format!(
        "consumer {consumer} has no parked event {seq}: it was released or discarded, or has \
         another number; check `parked list` and `parked audit`"
    )
}

async fn look<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    seq: i64,
) -> Result<Option<Shown>, sqlx::Error> {
    let name = &config.consumer.name;
    let one = ParkedFilter { seq: Some(seq), followers: true, ..ParkedFilter::default() };
    let page = |limit| Page { limit, newest: false };
    let row = DB::list(conn, name, &one, page(1)).await?.into_iter().next();
    let (Some(row), Some(kept)) = (row, DB::content(conn, name, seq).await?) else {
        return Ok(None);
    };
    let queue = ParkedFilter { queue_of: Some(seq), followers: true, ..ParkedFilter::default() };
    // The queue from its head on: what is before the event is not behind it.
    let queue = DB::list(conn, name, &queue, page(QUEUE_MAX)).await?;
    let place = |row: &ParkedRow| (row.offset, row.leader_epoch);
    let behind = queue.into_iter().filter(|other| place(other) > place(&row));
    let followers = behind.take(FOLLOWERS_MAX).collect();
    let place = AuditFilter {
        topic: Some(row.topic.clone()),
        partition: Some(row.partition),
        offset: Some(row.offset),
        ..AuditFilter::default()
    };
    let acts = DB::acts(conn, name, &place, ACTS_MAX).await?;
    let own = |act: &AuditRow| act.event_id.as_ref() == Some(&row.event_id);
    let acts = acts.into_iter().filter(own).collect();
    Ok(Some(Shown { row, kept, followers, acts }))
}

/// The record as it was kept; not JSON only if somebody changed it by hand.
fn record(kept: &ParkedContent) -> Value {
    serde_json::from_str(&kept.record).unwrap_or(Value::Null)
}

/// The chain of errors, the oldest first. Rows of an older version have their one error in the record.
fn errors(kept: &ParkedContent) -> Vec<Value> {
    let chain: Vec<Value> = serde_json::from_str(&kept.errors).unwrap_or_default();
    match record(kept).get("error") {
        Some(error) if chain.is_empty() => vec![json!({ "error": error })],
        _ => chain,
    }
}

pub(super) fn document(shown: &Shown) -> Value {
    let Shown { row, kept, followers, acts } = shown;
    let (means, advice) = reason(&row.reason);
    let fingerprint = hex(&kept.fingerprint, "");
    let mut document = json!({
        "event": row,
        "turn": turn(row),
        "means": means,
        "advice": advice,
        "fingerprint": fingerprint,
        "record": record(kept),
        "errors": errors(kept),
        "followers": followers,
        "audit": acts,
    });
    if record(kept).is_null() {
        document["record_text"] = Value::from(kept.record.as_str());
    }
    document
}

/// The event for people.
pub(super) fn rendered(shown: &Shown) -> String {
    let Shown { row, kept, followers, acts } = shown;
    let mut text = about(row);
    let record = record(kept);
    text += &content(&record);
    text += &chain(&errors(kept));
    text += &behind(row, followers);
    for act in acts {
        let why = plain(&act.why, 200);
        text += &line("act", &format!("{} {} by {}: {why}", act.at, act.what, plain(&act.who, 80)));
    }
    text
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<11} {value}\n")
}

fn about(row: &ParkedRow) -> String {
    let known = |text: &str| if text.is_empty() { "unknown".into() } else { plain(text, 300) };
    let (means, advice) = reason(&row.reason);
    let epoch = match row.leader_epoch {
        -1 => "unknown".to_owned(),
        epoch => epoch.to_string(),
    };
    let mut text = line("parked", &format!("{} since {}", row.seq, row.parked_at));
    text += &line("event", &row.event_id);
    text += &line("type", &known(&row.event_type));
    text += &line("aggregate", &known(&row.aggregate));
    text += &line(
        "from",
        &format!(
            "topic {}, partition {}, offset {}, leader epoch {epoch} (lane {})",
            row.topic, row.partition, row.offset, row.lane
        ),
    );
    text += &line("reason", &format!("{}: {means}", row.reason));
    text += &line("to do", advice);
    text += &line("due", &turn(row));
    if let (Some(intent), Some(by)) = (&row.intent, &row.intent_by) {
        let at = row.intent_at.as_deref().unwrap_or("?");
        text += &line("asked", &format!("{intent} by {} at {at}", plain(by, 80)));
    }
    text += &line("tried", &format!("{}, {}", counted(row.attempts, "attempt"), rounds(row)));
    if row.retired {
        text += &line("retired", "its topic's rows were retired: it can never be released");
    }
    text
}

fn rounds(row: &ParkedRow) -> String {
    let many = if row.releases == 1 { "" } else { "s" };
    format!("{} round{many} of release", row.releases)
}

fn content(record: &Value) -> String {
    let mut text = String::new();
    if let Some(milliseconds) = record.get("timestamp_ms").and_then(Value::as_u64) {
        text += &line("written", &format!("{}, by its producer's clock", moment(milliseconds)));
    }
    text += &line("key", &short(record.get("key")));
    for header in record.get("headers").and_then(Value::as_array).into_iter().flatten() {
        let name = header.get(0).and_then(Value::as_str).unwrap_or("?");
        text += &line("header", &format!("{}: {}", plain(name, 80), short(header.get(1))));
    }
    text += &payload(record.get("payload").or_else(|| record.get("payload_begins")));
    text + &record.get("excerpt").map(in_part).unwrap_or_default()
}

/// What is known of a record whose log has more than its row.
fn in_part(excerpt: &Value) -> String {
    let number = |name| excerpt.get(name).and_then(Value::as_u64).unwrap_or_default();
    let hash = excerpt.get("payload_sha256").and_then(Value::as_str).unwrap_or("none");
    let all = format!(
        "the record has {} bytes, {} of them payload (SHA-256 {hash}), and {} headers; only their \
         beginning is stored here, a release reads the rest from the log",
        number("bytes"),
        number("payload_bytes"),
        number("headers")
    );
    line("in part", &all)
}

/// A time as the database's are shown. A producer may claim any: one beyond year 9999 is left a number.
fn moment(milliseconds: u64) -> String {
    const LAST: u64 = 253_402_300_799_999;
    if milliseconds > LAST {
        return format!("{milliseconds} ms since 1970");
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
    humantime::format_rfc3339_millis(time).to_string()
}

/// Bytes as the record keeps them.
enum Bytes<'v> {
    None,
    Text(&'v str),
    Binary(Vec<u8>),
}

fn bytes(value: Option<&Value>) -> Bytes<'_> {
    let of = |name| value.and_then(|value| value.get(name)).and_then(Value::as_str);
    match (of("text"), of("base64")) {
        (Some(text), _) => Bytes::Text(text),
        (_, Some(coded)) => Bytes::Binary(STANDARD.decode(coded).unwrap_or_default()),
        _ => Bytes::None,
    }
}

fn short(value: Option<&Value>) -> String {
    match bytes(value) {
        Bytes::None => "none".into(),
        Bytes::Text(text) => plain(text, 200),
        Bytes::Binary(bytes) => hex(&bytes[..bytes.len().min(64)], " "),
    }
}

fn hex(bytes: &[u8], between: &str) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
}

fn indented(lines: impl Iterator<Item = String>) -> String {
    lines.flat_map(|line| ["  ".to_owned(), line, "\n".to_owned()]).collect()
}

fn payload(value: Option<&Value>) -> String {
    let cut = |shown: usize, all: usize| {
        if shown < all {
            format!(", the first {shown} here; --json has all")
        } else {
            String::new()
        }
    };
    match bytes(value) {
        Bytes::None => line("payload", "none: a tombstone"),
        Bytes::Text(text) => {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            let lines = indented(shown.lines().map(|one| plain(one, SHOWN_MAX)));
            let cut = cut(shown.len(), text.len());
            line("payload", &format!("{} bytes of text{cut}", text.len())) + &lines
        }
        Bytes::Binary(bytes) => {
            let shown = &bytes[..bytes.len().min(HEX_MAX)];
            let lines = indented(shown.chunks(16).map(|chunk| hex(chunk, " ")));
            let cut = cut(shown.len(), bytes.len());
            line("payload", &format!("{} bytes{cut}", bytes.len())) + &lines
        }
    }
}

fn chain(errors: &[Value]) -> String {
    let mut text = String::new();
    for error in errors {
        let said = error.get("error").and_then(Value::as_str).unwrap_or_default();
        let at = error.get("at").and_then(Value::as_str).unwrap_or_default();
        let attempt = error.get("attempt").and_then(Value::as_i64);
        let attempt = attempt.map_or_else(String::new, |n| format!("attempt {n}: "));
        let gap = if at.is_empty() { "" } else { " " };
        text += &line("error", &format!("{at}{gap}{attempt}{}", plain(said, 2_000)));
    }
    text
}

fn behind(row: &ParkedRow, followers: &[ParkedRow]) -> String {
    if row.followers == 0 {
        return line("followers", "none");
    }
    let one = |row: &ParkedRow| {
        let kind = if row.event_type.is_empty() { "?".into() } else { plain(&row.event_type, 40) };
        format!("{} ({kind} at {})", row.seq, row.offset)
    };
    let mut named: Vec<String> = followers.iter().map(one).collect();
    if usize::try_from(row.followers).is_ok_and(|all| all > named.len()) {
        named.push("…".into());
    }
    line("followers", &format!("{}: {}", counted(row.followers, "event"), named.join(", ")))
}
