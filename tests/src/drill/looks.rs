//! What the names look like on each channel.

use serde_json::Value;

use super::watch::{Look, Seen, Wanted};

/// A standstill, or a reason for which the process is not ready, with one of these names.
pub(super) fn reasons(names: &'static [&'static str]) -> Wanted {
    Wanted {
        ready: Some(Box::new(move |seen| ready(seen, names))),
        metrics: Box::new(move |seen| {
            let told = |line: &str, name: &str| {
                line.starts_with("inbox_standstill{")
                    && line.contains(&format!("reason=\"{name}\"}} 1"))
            };
            let found = |name: &&&str| seen.text.lines().any(|line| told(line, name));
            names.iter().find(found).map(|name| (*name).to_owned())
        }),
        status: Box::new(move |seen| status(seen, names)),
        log: Some(signals(names)),
    }
}

/// A signal, or the reason of one, with one of these names.
pub(super) fn signals(names: &'static [&'static str]) -> Look {
    Box::new(move |seen| {
        let texts = [&seen.json["reason"], &seen.json["signal"]];
        let said: Vec<&str> = texts.into_iter().filter_map(Value::as_str).collect();
        names.iter().find(|name| said.contains(*name)).map(|name| (*name).to_owned())
    })
}

/// The broker is gone.
pub(super) fn no_broker() -> Wanted {
    Wanted {
        ready: Some(Box::new(|seen| ready(seen, &["no_broker", "joining"]))),
        metrics: Box::new(|seen| {
            let left = |line: &str| line.starts_with("inbox_group_joined{") && line.ends_with(" 0");
            seen.text.lines().any(left).then(|| "inbox_group_joined 0".to_owned())
        }),
        status: Box::new(|seen| seen.text.contains("no broker").then(|| "no broker".to_owned())),
        log: Some(signals(&["no_broker", "joining", "broker_trouble"])),
    }
}

/// The process that was started again waits for its partitions.
pub(super) fn joining() -> Wanted {
    Wanted {
        ready: Some(Box::new(|seen| ready(seen, &["joining"]))),
        metrics: Box::new(|seen| {
            let left = |line: &str| line.starts_with("inbox_group_joined{") && line.ends_with(" 0");
            seen.text.lines().any(left).then(|| "inbox_group_joined 0".to_owned())
        }),
        status: Box::new(|seen| status(seen, &["owner_silent", "not_owned"])),
        // A process that is told to join says nothing of it.
        log: None,
    }
}

/// A lane is held by an event.
pub(super) fn held(event_id: &str) -> Wanted {
    let of = |id: &str, path: &'static str| -> Look {
        let id = id.to_owned();
        Box::new(move |seen| {
            let lanes = match path {
                "" => seen.json["held"].as_array().cloned().unwrap_or_default(),
                _ => {
                    partitions(seen).flat_map(|it| it[path].as_array()).flatten().cloned().collect()
                }
            };
            lanes.iter().any(|lane| lane["event_id"] == id.as_str()).then(|| "held".to_owned())
        })
    };
    let id = event_id.to_owned();
    Wanted {
        ready: Some(of(event_id, "")),
        metrics: Box::new(|seen| {
            let held = |line: &str| line.starts_with("inbox_lanes_held{") && !line.ends_with("} 0");
            seen.text.lines().any(held).then(|| "inbox_lanes_held".to_owned())
        }),
        status: of(event_id, "held"),
        log: Some(Box::new(move |seen| {
            let name = seen.json["signal"].as_str()?;
            let ours = seen.json["event_id"] == id.as_str();
            (ours && ["lane_held", "handler_failed"].contains(&name)).then(|| name.to_owned())
        })),
    }
}

/// An event is parked since it ends processes.
pub(super) fn crashed() -> Wanted {
    Wanted {
        // A process that has parked an event goes on, and is ready.
        ready: None,
        metrics: Box::new(|seen| {
            let parked = |line: &str| {
                line.starts_with("inbox_events_parked_total{")
                    && line.contains("reason=\"crashed\"")
                    && !line.ends_with("} 0")
            };
            seen.text.lines().any(parked).then(|| "crashed".to_owned())
        }),
        status: Box::new(|seen| {
            let parked = partitions(seen).any(|it| it["parked_events"].as_i64() > Some(0));
            parked.then(|| "parked_events".to_owned())
        }),
        log: Some(Box::new(|seen| {
            let reasons = seen.json["reasons"].as_str()?;
            (seen.json["signal"] == "parked" && reasons.contains("crashed"))
                .then(|| "crashed".to_owned())
        })),
    }
}

fn ready(seen: &Seen, names: &[&str]) -> Option<String> {
    let reasons = seen.json["reasons"].as_array()?;
    let said: Vec<&str> = reasons.iter().filter_map(|it| it["reason"].as_str()).collect();
    names.iter().find(|name| said.contains(*name)).map(|name| (*name).to_owned())
}

fn status(seen: &Seen, names: &[&str]) -> Option<String> {
    let said: Vec<&str> = partitions(seen).filter_map(|it| it["standstill"].as_str()).collect();
    let found = |name: &&&str| said.iter().any(|text| text.starts_with(&format!("{name}:")));
    names.iter().find(found).map(|name| (*name).to_owned())
}

fn partitions(seen: &Seen) -> impl Iterator<Item = &Value> {
    seen.json.as_array().into_iter().flatten()
}
