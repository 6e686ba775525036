//! `check`: what keeps a consumer from starting, and what is doubtful.

mod decoded;
mod sample;
#[cfg(test)]
mod tests;
mod topics;

use std::time::SystemTime;

use inbox_handler::internal::{CodecsStarted, RouteLookup, RouteTable};
use inbox_runtime::internal::CONTROL_SESSIONS;
use inbox_store::internal::port::{Finding, Needs, Operators, PartitionRow, Placement, Store};
use kafka_kit::internal::{TopicFacts, missing};
use outbox_core::Reader;
use service_kit::{
    cli::{CheckDocument, CheckReport},
    printed,
};

use super::{Exit, Terminal, session::describe_error};
use crate::{
    Routes,
    config::{Config, Unwanted},
    consumer::{
        INTAKE_TOPIC, connections, declared, kafka_settings, payload_codec, schema_is_current,
        settings,
    },
};

/// Connections besides those of transactions and control: retention and the count of parked events.
const ASIDE_SESSIONS: usize = 2;

const NO_OUTBOX: &str = "the role may not append to the outbox, which is fine if no handler calls \
                         `tx.append`; otherwise run what `migrate --print-grants ROLE --for \
                         appending-consumer` prints";
const NO_LETTERS: &str = "the role may not append to the outbox, but dead letters \
                          (`events.dead_letter_topic`) are appended to it; run, as the tables' \
                          owner, what `migrate --print-grants ROLE --for appending-consumer` \
                          prints";

/// What is shown.
#[derive(Clone, Copy)]
pub(super) struct Show {
    /// As JSON.
    pub(super) json: bool,
    /// So many records of each topic besides.
    pub(super) sample: Option<usize>,
}

/// The report, with the records that were asked for.
#[derive(serde::Serialize)]
struct CheckWithSample<'r> {
    #[serde(flatten)]
    findings: CheckDocument<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<&'r [sample::Sample]>,
}

/// Looks at everything without changing anything and without joining the group.
pub(super) async fn check<DB: Store>(
    config: &Config,
    routes: Routes<DB>,
    show: Show,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut report = CheckReport::default();
    let problems = config.validate().into_iter();
    report.add("configuration", problems.map(|problem| (problem.fatal, problem.text)));
    let codec = match payload_codec(config) {
        Ok(codec) => codec,
        Err(error) => {
            add(&mut report, "codecs", [fatal(error.to_string())]);
            None
        }
    };
    let routes = match routes.declare(&declared(config), codec.as_ref()).freeze() {
        Ok(routes) => Some(routes),
        Err(text) => {
            add(&mut report, "handlers", [fatal(text)]);
            None
        }
    };
    let reader = config.reader().ok();
    let Seen { database, handlers, notes, rows } = database::<DB>(config, routes.as_ref()).await;
    add(&mut report, "database", database);
    report.note("database", notes);
    add(&mut report, "handlers", handlers);
    if let Some(routes) = &routes {
        let CodecsStarted { refused, missing } = routes.start_codecs().await;
        add(&mut report, "codecs", refused.into_iter().chain(missing).map(fatal));
    }
    add(&mut report, "database", topics::standing(&rows));
    add(&mut report, "database", topics::id_scope(&rows, config.events.id_scope));
    // An intake has lanes of its own, and no topic.
    let rows: Vec<PartitionRow> =
        rows.into_iter().filter(|row| row.topic != INTAKE_TOPIC).collect();
    if let Some(reader) = &reader {
        let rule =
            |topic: &str| Placement::of(reader.of_topic(topic).rules()).lane_rule().to_owned();
        add(&mut report, "database", topics::lanes(&rows, config.lanes.count, &rule));
    }
    let handlers = reader.as_ref().zip(routes.as_ref());
    let facts = if config.reads_kafka() {
        brokers(config, &rows, handlers, &mut report).await
    } else {
        Vec::new()
    };
    let mut samples = show
        .sample
        .zip(handlers)
        .map(|(count, handlers)| sample::samples(&facts, count, handlers, config));
    if let (Some(samples), Some(handlers)) = (&mut samples, handlers) {
        decoded::decode(samples, &facts, handlers, codec.as_ref(), config).await;
    }
    let told = match (&samples, show.json) {
        (_, true) => {
            let findings = report.document();
            printed::json(&CheckWithSample { findings, sample: samples.as_deref() })
        }
        (None, false) => report.rendered(),
        (Some(samples), false) => {
            format!("{}\n\n{}", report.rendered(), sample::rendered(samples))
        }
    };
    terminal.say(told);
    if report.startable() { Exit::Done } else { Exit::Findings }
}

fn add(report: &mut CheckReport, about: &'static str, findings: impl IntoIterator<Item = Finding>) {
    report.add(about, findings.into_iter().map(|finding| (finding.fatal, finding.text)));
}

fn fatal(text: impl Into<String>) -> Finding {
    Finding { fatal: true, text: text.into() }
}

/// What the database says: of itself, of the statements of declared handlers; and the partitions it knows.
#[derive(Default)]
struct Seen {
    database: Vec<Finding>,
    handlers: Vec<Finding>,
    notes: Vec<String>,
    rows: Vec<PartitionRow>,
}

async fn database<DB: Store>(config: &Config, routes: Option<&RouteTable<DB>>) -> Seen {
    let none = |text: String| Seen { database: vec![fatal(text)], ..Seen::default() };
    let settings = match settings::<DB>(config) {
        Ok(settings) => settings,
        Err(error) => return none(error.to_string()),
    };
    let mut conn = match DB::open(&settings).await {
        Ok(conn) => conn,
        Err(error) => return none(error.to_string()),
    };
    let unseen = |error: sqlx::Error| {
        let error = describe_error::<DB>(config, &error);
        fatal(format!("cannot inspect the database: {error}"))
    };
    let (mut found, mut rows) = (Vec::new(), Vec::new());
    // Each look that lacks some would name one of them.
    let rights = DB::rights(&mut conn).await.ok().flatten().filter(|finding| finding.fatal);
    let looked = match schema_is_current::<DB>(&mut conn).await {
        Err(error) => Err(fatal(error.to_string())),
        Ok(()) => DB::findings(&mut conn).await.map_err(unseen),
    };
    match looked {
        Ok(findings) => found.extend(findings),
        Err(_) if rights.is_some() => found.extend(rights),
        Err(finding) => found.push(finding),
    }
    if found.is_empty() || found.iter().all(|finding| !finding.fatal) {
        match DB::partitions(&mut conn, &config.consumer.name).await {
            Ok(known) => rows = known,
            Err(error) => found.push(unseen(error)),
        }
    }
    match DB::advice(&mut conn, &needs::<DB>(config)).await {
        Ok(advice) => found.extend(advice),
        Err(error) => found.push(unseen(error)),
    }
    found.extend(pooler::<DB>(&mut conn, &settings, config).await);
    let handlers = match routes {
        Some(routes) => statements(routes, &mut conn, settings).await,
        None => Vec::new(),
    };
    let appends = DB::appends(&mut conn).await.unwrap_or(true);
    let unwanted = [config.events.undecodable, config.events.unknown_type];
    let letters = unwanted.contains(&Unwanted::DeadLetter);
    found.extend((letters && !appends).then(|| fatal(NO_LETTERS)));
    let notes = if appends || letters { Vec::new() } else { vec![NO_OUTBOX.to_owned()] };
    DB::close_hard(conn).await;
    Seen { database: found, handlers, notes, rows }
}

/// What the database says to the statements of declared handlers.
async fn statements<DB: Store>(
    routes: &RouteTable<DB>,
    conn: &mut DB::Connection,
    settings: DB::Settings,
) -> Vec<Finding> {
    let wrong = match routes.refused_statements(conn).await {
        Ok(wrong) => wrong,
        Err(error) => vec![format!(
            "the database cannot check the declared handlers: {}",
            DB::explain(&error)
        )],
    };
    if wrong.is_empty() {
        let (_, doubt) = routes.equip(conn, settings).await;
        return doubt.into_iter().map(|text| Finding { fatal: false, text }).collect();
    }
    wrong.into_iter().map(fatal).collect()
}

fn needs<DB: Operators>(config: &Config) -> Needs {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // An intake has one more to look for parked events.
    let intake =
        if config.intake.is_on() { usize::from(config.intake.transactions_max) + 1 } else { 0 };
    let beside = CONTROL_SESSIONS + ASIDE_SESSIONS + intake;
    Needs {
        connections: connections::<DB>(config) + beside,
        connections_beside: beside,
        attempt_deadline: config.retry.attempt_deadline,
        now: now.as_secs_f64(),
    }
}

/// Two sessions at once with one process of the server: a pooler hands it out by transactions.
async fn pooler<DB: Operators>(
    conn: &mut DB::Connection,
    settings: &DB::Settings,
    config: &Config,
) -> Option<Finding> {
    let ours = DB::backend(conn).await.ok()??;
    let mut second = DB::open(settings).await.ok()?;
    let theirs = DB::backend(&mut second).await;
    DB::close_hard(second).await;
    pooled(ours, theirs.ok()??, config.database.statement_cache)
}

fn pooled(ours: i64, theirs: i64, statement_cache: u16) -> Option<Finding> {
    (ours == theirs && statement_cache > 0).then(|| {
        fatal(
            "two sessions share one server process: a pooler in transaction mode (PgBouncer) is \
             in between, which breaks prepared statements and session settings; set \
             `database.statement_cache` to 0 and give the role its settings by ALTER ROLE, or \
             connect to the server directly",
        )
    })
}

/// What Kafka says, and what it says of each topic.
async fn brokers<DB: Operators>(
    config: &Config,
    rows: &[PartitionRow],
    handlers: Option<(&Reader, &RouteTable<DB>)>,
    report: &mut CheckReport,
) -> Vec<TopicFacts> {
    let logs = match kafka_kit::internal::inspect(kafka_settings(config)).await {
        Ok(logs) => logs,
        Err(error) => {
            add(report, "kafka", [fatal(error.to_string())]);
            return Vec::new();
        }
    };
    let gone = logs.missing(&config.kafka.topics);
    if !gone.is_empty() {
        add(report, "kafka", gone.into_iter().map(|topic| fatal(missing(topic))));
        return Vec::new();
    }
    add(report, "kafka", logs.forbidden().map(|forbidden| fatal(forbidden.to_string())));
    let facts = match kafka_kit::internal::topics(kafka_settings(config)).await {
        Ok(facts) => facts,
        Err(error) => {
            add(report, "kafka", [fatal(error.to_string())]);
            return Vec::new();
        }
    };
    for topic in &facts {
        add(report, "kafka", topics::kept(topic, config));
        add(report, "kafka", topics::behind(topic, &logs.facts, rows));
        add(report, "kafka", topics::added(topic, rows));
    }
    let Some((reader, routes)) = handlers else { return facts };
    let known = |event_type: &str| routes.lookup(event_type) != RouteLookup::Unknown;
    let handled: Vec<&str> = routes.names().iter().map(|(event_type, _)| *event_type).collect();
    let sampled =
        topics::types(&facts, reader, &known, (&handled, routes.remedy()), &config.events);
    add(report, "handlers", sampled.doubts);
    report.note("handlers", sampled.notes);
    facts
}
