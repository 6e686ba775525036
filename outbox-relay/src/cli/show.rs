//! `failed show`: everything that is known of one row.

use serde_json::{Value, json};
use service_kit::printed;

use crate::port::{RowContent, TOPIC};

/// How much of a payload is read and shown.
pub(super) const PAYLOAD_MAX: usize = 4096;
const HEX_MAX: usize = 512;

/// The row for people, or for machines.
pub(super) fn rendered(row: &RowContent, json: bool) -> String {
    if json { printed::json(&document(row)) } else { lines(row) }
}

/// What the row's headers are: an array of pairs, unless somebody wrote something else by hand.
fn headers(row: &RowContent) -> Value {
    serde_json::from_str(&row.headers).unwrap_or_else(|_| Value::from(row.headers.as_str()))
}

fn document(row: &RowContent) -> Value {
    let mut document = json!(row);
    document["headers"] = headers(row);
    document["state"] = Value::from(state(row));
    if row.payload_bytes.is_some() {
        document["payload_begins"] = match std::str::from_utf8(text_part(&row.payload)) {
            Ok(text) => json!({ "text": text }),
            Err(_) => json!({ "hex": hex(&row.payload, "") }),
        };
    }
    document
}

/// What a row waits for that is sent automatically: a topic, if it is not a destination.
pub(super) fn waits_for(is_destination: bool) -> &'static str {
    if is_destination { "waits for its destination" } else { "waits for its topic" }
}

/// What became of the row, or becomes of it.
fn state(row: &RowContent) -> &'static str {
    if row.sent_at.is_some() {
        return "sent";
    }
    if row.discarded_at.is_some() {
        return "discarded";
    }
    let is_topic = row.destination.as_ref().is_some_and(|name| name.starts_with(TOPIC));
    match row.state.as_deref() {
        None | Some("ready") => "waits to be sent",
        Some("behind") => "blocked behind another row of its aggregate",
        Some("waiting") => waits_for(!is_topic),
        Some("retry") => "in retry",
        Some("scheduled") => "waits for its time",
        Some(_) => "parked, manual action required",
    }
}

fn lines(row: &RowContent) -> String {
    let number = |number: Option<i64>| number.map(|number| number.to_string());
    let own = |text: &Option<String>| text.clone();
    let rows = [
        ("row", Some(row.seq.to_string())),
        ("state", Some(state(row).to_owned())),
        ("event", Some(row.event_id.clone())),
        ("type", Some(row.event_type.clone())),
        ("aggregate", Some(format!("{}/{}", row.aggregate_type, row.aggregate_id))),
        ("version", number(row.aggregate_version)),
        ("schema", number(row.schema_version)),
        ("occurred", number(row.occurred_at_ms).map(|millis| format!("{millis} ms since 1970"))),
        ("topic", own(&row.topic)),
        ("dedup key", own(&row.dedup_key)),
        ("size limit", Some(row.bytes_max.to_string())),
        ("appended", own(&row.created_at)),
        ("not before", own(&row.deliver_after)),
        ("sent", own(&row.sent_at)),
        ("parked", own(&row.parked_at)),
        ("attempts", Some(row.attempts.to_string())),
        ("due", own(&row.due_at)),
        ("destination", own(&row.destination)),
        ("error", own(&row.error)),
        ("discarded", own(&row.discarded_at)),
        ("by", own(&row.discarded_by)),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some(line(name, &value?)));
    let mut text: String = rows.collect();
    match headers(row) {
        Value::Array(pairs) => {
            for pair in pairs {
                let name = pair.get(0).and_then(Value::as_str).unwrap_or("?");
                let value = match pair.get(1) {
                    Some(Value::String(value)) => value.clone(),
                    Some(value) => value.to_string(),
                    None => "?".into(),
                };
                text += &line("header", &format!("{name}: {value}"));
            }
        }
        other => text += &line("headers", &other.to_string()),
    }
    text += &payload(row);
    text.trim_end().to_owned()
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<11} {}\n", printed::line(value))
}

fn payload(row: &RowContent) -> String {
    let Some(bytes) = row.payload_bytes else { return line("payload", "none: a tombstone") };
    let cut = |shown: usize| {
        let all = usize::try_from(bytes).unwrap_or_default();
        if shown < all { format!(", the first {shown} here") } else { String::new() }
    };
    match std::str::from_utf8(text_part(&row.payload)) {
        Ok(text) => {
            let head = line("payload", &format!("{bytes} bytes of text{}", cut(text.len())));
            head + &indented(text.lines().map(printed::line))
        }
        Err(_) => {
            let shown = &row.payload[..row.payload.len().min(HEX_MAX)];
            let head = line("payload", &format!("{bytes} bytes{}", cut(shown.len())));
            head + &indented(shown.chunks(16).map(|chunk| hex(chunk, " ")))
        }
    }
}

/// Bytes without a letter that their end cuts in two.
fn text_part(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

fn indented(lines: impl Iterator<Item = String>) -> String {
    lines.flat_map(|line| ["  ".to_owned(), line, "\n".to_owned()]).collect()
}

fn hex(bytes: &[u8], between: &str) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> RowContent {
        RowContent {
            seq: 7,
            event_id: "e-1".into(),
            event_type: "Paid".into(),
            aggregate_type: "Order".into(),
            aggregate_id: "1".into(),
            bytes_max: 1_048_576,
            parked_at: Some("2026-01-02T03:04:05.000Z".into()),
            state: Some("retry".into()),
            due_at: Some("2026-01-02T03:04:17.000Z".into()),
            destination: Some("shop".into()),
            attempts: 2,
            error: Some("503\u{1b}[31m".into()),
            headers: r#"[["a","b"],["c",{"base64":"/wA="}],["d",null]]"#.into(),
            payload_bytes: Some(9_000),
            payload: "ä".repeat(PAYLOAD_MAX / 2).into_bytes(),
            ..RowContent::default()
        }
    }

    #[test]
    fn a_row_is_shown_with_all_that_it_has() {
        let text = rendered(&row(), false);
        for part in [
            "row         7\n",
            "state       in retry\n",
            "aggregate   Order/1\n",
            "due         2026-01-02T03:04:17.000Z\n",
            "destination shop\n",
            "attempts    2\n",
            "header      a: b\nheader      c: {\"base64\":\"/wA=\"}\nheader      d: null\n",
            "payload     9000 bytes of text, the first 4096 here\n  ä",
        ] {
            assert!(text.contains(part), "{part:?}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains("not before"), "{text}");
        let json: Value = serde_json::from_str(&rendered(&row(), true)).unwrap();
        assert_eq!(json["headers"][0][1], "b");
        assert_eq!(json["payload_begins"]["text"].as_str().unwrap().len(), PAYLOAD_MAX);
        assert_eq!((&json["attempts"], &json["sent_at"]), (&json!(2), &Value::Null));
    }

    #[test]
    fn what_is_no_text_is_shown_too() {
        let cut = RowContent { payload: vec![b'x', 0xc3], payload_bytes: Some(3), ..row() };
        assert!(lines(&cut).contains("3 bytes of text, the first 1 here\n  x"), "{}", lines(&cut));
        let binary = RowContent { payload: vec![0xff, 0], payload_bytes: Some(2), ..row() };
        assert!(lines(&binary).contains("2 bytes\n  ff 00"), "{}", lines(&binary));
        assert_eq!(document(&binary)["payload_begins"]["hex"], "ff00");
        let none = RowContent { payload: Vec::new(), payload_bytes: None, ..row() };
        assert!(lines(&none).contains("none: a tombstone"));
        let strange = RowContent { headers: "no json".into(), sent_at: Some("x".into()), ..row() };
        assert!(lines(&strange).contains("headers     \"no json\""));
        assert!(lines(&strange).contains("state       sent"));
    }
}
