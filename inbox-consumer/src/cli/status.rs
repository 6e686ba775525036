//! `status`: where each partition stands, from the database and from Kafka.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use inbox_store::internal::port::{Operators, PartitionRow};
use kafka_kit::internal::{BrokerError, LogFacts, Logs, TopicState, missing};
use outbox_core::TopicPartition;
use service_kit::printed;

use super::{
    Exit, Terminal,
    session::{describe_error, open},
    table,
    words::counted,
};
use crate::{
    config::Config,
    consumer::{INTAKE_TOPIC, kafka_settings},
    telemetry::HeldLane,
};

/// What is to be shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Show {
    pub(super) json: bool,
    /// What holds lanes instead of partitions.
    pub(super) lanes: bool,
    /// Topics that are not configured, too.
    pub(super) all: bool,
}

/// A partition as `status` shows it. What is not known is `None`.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Line {
    topic: String,
    partition: i32,
    /// The group's committed offset in Kafka.
    committed: Option<i64>,
    /// The next offset to settle, as the database holds it.
    watermark: Option<i64>,
    /// The offset after the last record.
    log_end: Option<i64>,
    /// Records that are not settled below the watermark.
    lag: Option<i64>,
    owner: Option<String>,
    owner_seen_seconds: Option<f64>,
    epoch: Option<i64>,
    /// Offsets from the watermark to the furthest settled one.
    in_flight: Option<i64>,
    parked_events: i64,
    parked_aggregates: i64,
    /// Parked events that wait for versions before their own.
    gaps: i64,
    /// Why it stands still.
    standstill: Option<String>,
    /// Lanes that are held by their first event.
    held: Vec<HeldLane>,
    /// The change of its lanes that waits.
    remap: Option<String>,
}

/// What the database and Kafka know, put together.
pub(super) fn lines(rows: Vec<PartitionRow>, logs: Logs, silence_max: Duration) -> Vec<Line> {
    let mut facts: BTreeMap<_, LogFacts> = BTreeMap::new();
    for fact in logs.facts {
        facts.insert((fact.partition.topic.to_string(), fact.partition.partition), fact);
    }
    let mut all = BTreeMap::new();
    for row in rows.into_iter().filter(|row| !row.retired) {
        let place = (row.topic.clone(), row.partition);
        let strange = strange(&row, &logs.topics, facts.get(&place));
        let fact = facts.remove(&place).filter(|_| strange.is_none());
        let line = stored(row, strange, silence_max);
        all.insert(place, if let Some(fact) = fact { with(line, &fact) } else { line });
    }
    for (place, fact) in facts {
        all.insert(place.clone(), with(unknown(place), &fact));
    }
    all.into_values().collect()
}

fn with(line: Line, fact: &LogFacts) -> Line {
    let committed = fact.committed.map(|next| next.0);
    // The database was read first. An owner commits what its watermark has reached, so it has moved on since.
    let moved_on = committed.filter(|next| line.owner.is_some() && *next <= fact.log.end.0);
    let watermark = line.watermark.map(|watermark| watermark.max(moved_on.unwrap_or(watermark)));
    let settled = watermark.or(committed).unwrap_or(fact.log.start.0);
    Line {
        committed,
        watermark,
        in_flight: line.in_flight.map(|reached| {
            (reached - watermark.zip(line.watermark).map_or(0, |(now, then)| now - then)).max(0)
        }),
        log_end: Some(fact.log.end.0),
        lag: Some((fact.log.end.0 - settled).max(0)),
        ..line
    }
}

/// Why the log that Kafka has is not the one that the database knows: then its offsets say nothing here.
fn strange(
    row: &PartitionRow,
    topics: &HashMap<String, Option<TopicState>>,
    fact: Option<&LogFacts>,
) -> Option<String> {
    let (topic, partition) = (&row.topic, row.partition);
    let Some(state) = topics.get(topic)? else {
        return Some(format!("topic_missing: {}", missing(topic)));
    };
    if state.is_other(row.topic_id) {
        return Some(format!(
            "topic_recreated: topic {topic} was deleted and re-created, and the database still \
             has the state of the old one; see `retire`"
        ));
    }
    let place = TopicPartition { topic: topic.as_str().into(), partition };
    if let Some(text) = state.lacks(&place) {
        return Some(format!("topic_missing: {text}"));
    }
    let end = fact?.log.end.0;
    (end < row.watermark).then(|| {
        format!("log_ends_below: the log ends at {end}, below the watermark {}", row.watermark)
    })
}

fn stored(row: PartitionRow, strange: Option<String>, silence_max: Duration) -> Line {
    let silent = row.owner_seen_seconds.filter(|seconds| *seconds > silence_max.as_secs_f64());
    let standstill = row.standstill.or(strange).or_else(|| match (&row.owner, silent) {
        (None, _) => Some("not_owned: no running consumer owns it".into()),
        (Some(_), Some(seconds)) => Some(format!("owner_silent: for {seconds:.0} s")),
        (Some(_), None) => None,
    });
    let held = row.owner.is_some().then_some(row.held_lanes).flatten();
    // An intake has no log: its offsets count the events of each lane.
    let has_log = row.topic != INTAKE_TOPIC;
    Line {
        topic: row.topic,
        partition: row.partition,
        committed: None,
        watermark: has_log.then_some(row.watermark),
        log_end: None,
        lag: None,
        owner: row.owner,
        owner_seen_seconds: row.owner_seen_seconds,
        epoch: Some(row.epoch),
        in_flight: has_log.then(|| (row.reached - row.watermark).max(0)),
        parked_events: row.parked_events,
        parked_aggregates: row.parked_aggregates,
        gaps: row.gaps,
        standstill,
        held: held.map(|text| HeldLane::read(&text)).unwrap_or_default(),
        remap: row.next_lanes.map(|(count, rule)| {
            let by = if rule == row.lane_rule { String::new() } else { format!(" by {rule}") };
            format!(
                "its {} lanes become {count}{by} once nothing is settled ahead of the watermark",
                row.lane_count
            )
        }),
    }
}

/// A partition that Kafka has and the database has never seen.
fn unknown((topic, partition): (String, i32)) -> Line {
    Line {
        topic,
        partition,
        committed: None,
        watermark: None,
        log_end: None,
        lag: None,
        owner: None,
        owner_seen_seconds: None,
        epoch: None,
        in_flight: None,
        parked_events: 0,
        parked_aggregates: 0,
        gaps: 0,
        standstill: Some("not_owned: no consumer of this name has ever owned it".into()),
        held: Vec::new(),
        remap: None,
    }
}

impl Line {
    /// What holds a lane, if the partition moves otherwise.
    fn held(&self) -> Option<String> {
        let [first, rest @ ..] = &*self.held else { return None };
        let more =
            if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
        Some(format!("lane_held: {}{more}", first.sentence()))
    }
}

impl Line {
    /// What is missing, if the partition moves otherwise.
    fn gap(&self) -> Option<String> {
        let wait = if self.gaps == 1 { "waits" } else { "wait" };
        let events = counted(self.gaps, "event");
        (self.gaps > 0).then(|| format!("gap: {events} {wait} for an earlier version"))
    }
}

/// What holds lanes, one line for each.
pub(super) fn held(lines: &[Line]) -> String {
    let of = |line: &Line, lane: &HeldLane| {
        format!("{}/{}: {}", line.topic, line.partition, printed::line(&lane.sentence()))
    };
    let all: Vec<String> =
        lines.iter().flat_map(|line| line.held.iter().map(|lane| of(line, lane))).collect();
    if all.is_empty() { "no lane is held up".to_owned() } else { all.join("\n") }
}

/// Leaves out topics that are not configured any more; answers how many partitions these were.
pub(super) fn hide(lines: &mut Vec<Line>, topics: &[String]) -> i64 {
    let before = lines.len();
    lines.retain(|line| topics.contains(&line.topic) || line.topic == INTAKE_TOPIC);
    i64::try_from(before - lines.len()).unwrap_or(i64::MAX)
}

/// What Kafka holds, where anything is read from it.
async fn logs(config: &Config) -> Option<Result<Logs, BrokerError>> {
    if !config.reads_kafka() {
        return None;
    }
    Some(kafka_kit::internal::inspect(kafka_settings(config)).await)
}

/// The lines for people.
pub(super) fn rendered(lines: &[Line]) -> String {
    let heads = [
        "TOPIC",
        "PARTITION",
        "COMMITTED",
        "WATERMARK",
        "LOG END",
        "LAG",
        "EPOCH",
        "IN FLIGHT",
        "PARKED",
        "OWNER",
        "STALLED",
    ];
    let number = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
    let rows: Vec<_> = lines
        .iter()
        .map(|line| {
            [
                line.topic.clone(),
                line.partition.to_string(),
                number(line.committed),
                number(line.watermark),
                number(line.log_end),
                number(line.lag),
                // The high part counts take-overs, the low one is random.
                number(line.epoch.map(|epoch| epoch >> 20)),
                number(line.in_flight),
                line.parked_events.to_string(),
                line.owner.clone().unwrap_or_else(|| "-".into()),
                line.standstill
                    .clone()
                    .or_else(|| line.held())
                    .or_else(|| line.remap.clone())
                    .or_else(|| line.gap())
                    .unwrap_or_default(),
            ]
        })
        .collect();
    table::aligned(heads, &rows)
}

/// Shows every partition of the consumer. Without Kafka it shows what the database knows.
pub(super) async fn status<DB: Operators>(
    config: &Config,
    show: Show,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut conn = match open::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let rows = DB::partitions(&mut conn, &config.consumer.name).await;
    let snapshot = DB::oldest_snapshot(&mut conn).await.ok().flatten();
    DB::close_hard(conn).await;
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            terminal.complain(format!(
                "cannot read the inbox tables: {}; run `migrate` first",
                describe_error::<DB>(config, &error)
            ));
            return Exit::Database;
        }
    };
    let (logs, exit) = match logs(config).await {
        None => (Logs::default(), Exit::Done),
        Some(Ok(logs)) => {
            let gone = logs.missing(&config.kafka.topics);
            for topic in &gone {
                terminal.complain(missing(topic));
            }
            (logs, if gone.is_empty() { Exit::Done } else { Exit::Kafka })
        }
        Some(Err(error)) => {
            terminal.complain(error.to_string());
            (Logs::default(), Exit::Kafka)
        }
    };
    let mut lines = lines(rows, logs, config.kafka.session_timeout);
    let hidden = if show.all { 0 } else { hide(&mut lines, &config.kafka.topics) };
    if show.json {
        terminal.say(printed::json(&lines));
        return exit;
    }
    terminal.say(if show.lanes { held(&lines) } else { rendered(&lines) });
    if hidden > 0 {
        terminal.say(format!(
            "\n{} of topics that are not configured; --all shows them",
            counted(hidden, "partition")
        ));
    }
    if let Some(warning) = snapshot.and_then(|open| open.warning()) {
        terminal.say(format!("\n{warning}"));
    }
    exit
}
