//! `check`: what keeps a relay from its work, and what is doubtful.

use service_kit::{cli::CheckReport, duration, printed::counted};

use super::{Exit, Terminal, on, options_of};
use crate::{
    config::{Config, Problem, RecordFormat},
    destination,
    port::{Finding, Operators, Overview, ReportedOutage, whole},
    relay::{address, schema_is_current, sink_settings},
    sink,
};

/// Looks at everything without changing anything: it takes no turn and fences nobody.
pub(super) async fn check(config: &Config, json: bool, terminal: &mut Terminal<'_>) -> Exit {
    let mut report = CheckReport::default();
    report.add("configuration", config.validate().into_iter().map(graded));
    if report.startable() {
        let (destinations, problems) = destination::of(config);
        let more = destination::problems(config, &destinations).await;
        report.add("destinations", problems.into_iter().chain(more).map(graded));
    }
    let database = match options_of(config) {
        Ok(options) => on!(&options, database(settings,), &address(config)),
        Err(error) => vec![fatal(error.to_string())],
    };
    add(&mut report, "database", database);
    if config.reaches_kafka() {
        add(&mut report, "kafka", brokers(config).await);
        add(&mut report, "kafka", aging(config).await);
    }
    terminal.say(if json { report.json() } else { report.rendered() });
    if report.startable() { Exit::Done } else { Exit::Findings }
}

fn graded(problem: Problem) -> (bool, String) {
    (problem.fatal, problem.text)
}

fn add(report: &mut CheckReport, about: &'static str, findings: impl IntoIterator<Item = Finding>) {
    report.add(about, findings.into_iter().map(|finding| (finding.fatal, finding.text)));
}

fn fatal(text: String) -> Finding {
    Finding { fatal: true, text }
}

async fn database<F: Operators>(settings: F::Settings) -> Vec<Finding> {
    let mut session = match F::open(&settings).await {
        Ok(session) => session,
        Err(error) => return vec![fatal(error.to_string())],
    };
    // Without these nothing else can be looked at, and each look would name one of them.
    let rights = whole::<F, _>(&settings, &mut session, async |s| F::rights(s).await).await;
    let rights = rights.ok().flatten();
    let found = match schema_is_current::<F>(&settings, &mut session).await {
        _ if rights.is_some() => Vec::from_iter(rights),
        Err(error) => vec![fatal(error.to_string())],
        Ok(()) => looked_at::<F>(&settings, &mut session).await,
    };
    F::close_hard(session).await;
    found
}

async fn looked_at<F: Operators>(settings: &F::Settings, session: &mut F::Session) -> Vec<Finding> {
    let failed = |error| vec![fatal(format!("cannot inspect the database: {error}"))];
    let mut found = whole::<F, _>(settings, session, async |s| F::findings(s).await)
        .await
        .unwrap_or_else(failed);
    match whole::<F, _>(settings, session, async |s| F::overview(s).await).await {
        Ok(overview) => {
            let outages = overview.destination_outages.iter().map(outage);
            let texts = doubt(&overview).into_iter().chain(outages);
            found.extend(texts.map(|text| Finding { fatal: false, text }));
        }
        Err(error) => found.extend(failed(error)),
    }
    found
}

/// A destination that is down for the relay that has the turn.
fn outage(ReportedOutage { destination, seconds, error }: &ReportedOutage) -> String {
    format!(
        "destination {destination} has been down for {seconds} s, its rows wait: {error}; fix the \
         receiver, sending resumes automatically"
    )
}

/// What is to be thought about of the rows.
pub(super) fn doubt(overview: &Overview) -> Option<String> {
    let Overview { failed, held, waiting_for_topic, waiting_for_destination, .. } = *overview;
    if failed > 0 {
        let (are, them) = if failed == 1 { ("is", "it") } else { ("are", "them") };
        let wait = if held == 1 { "waits" } else { "wait" };
        return Some(format!(
            "{} {are} parked, and {held} {wait} behind {them}; check `outbox-relay failed list`, \
             then retry or discard {them}",
            counted(failed, "row")
        ));
    }
    if waiting_for_topic == 0 {
        let (wait, go) = match waiting_for_destination {
            1 => ("waits", "it is sent automatically"),
            _ => ("wait", "they are sent automatically"),
        };
        return (waiting_for_destination > 0).then(|| {
            format!(
                "{} {wait} for a destination that is down ({}); {go} once it recovers",
                counted(waiting_for_destination, "row"),
                overview.destinations_out.join(", "),
            )
        });
    }
    let wait = if waiting_for_topic == 1 { "waits" } else { "wait" };
    let (topics, them) = match overview.missing_topics.len() {
        1 => ("a topic that is missing or forbidden", "it"),
        _ => ("topics that are missing or forbidden", "them"),
    };
    let go = if waiting_for_topic == 1 { "the row is sent" } else { "the rows are sent" };
    Some(format!(
        "{} {wait} for {topics} ({}); create {them}, or grant WRITE on {them}, and {go} automatically",
        counted(waiting_for_topic, "row"),
        overview.missing_topics.join(", ")
    ))
}

async fn brokers(config: &Config) -> Vec<Finding> {
    let settings = sink_settings(config);
    // A template with a placeholder names no topic that could be asked for; another format has none.
    let topic =
        Some(config.kafka.topic.clone()).filter(|topic| !topic.contains('{') && !topic.is_empty());
    let looked =
        tokio::task::spawn_blocking(move || sink::inspect(&settings, topic.as_deref())).await;
    match looked {
        Ok(Ok(None)) => Vec::new(),
        Ok(Ok(Some(topic))) => vec![Finding { fatal: false, text: topic }],
        Ok(Err(text)) => vec![fatal(text)],
        Err(_) => vec![fatal("the check of Kafka panicked; please report this bug".into())],
    }
}

/// Records with the event's own time, in topics that delete by it.
async fn aging(config: &Config) -> Option<Finding> {
    let debezium = &config.debezium;
    let column = debezium.table_field_event_timestamp.as_ref()?;
    if config.kafka.format == RecordFormat::Own {
        return None;
    }
    // What is before the first group of the replacement; all topics are too many.
    let replacement = &debezium.route_topic_replacement;
    let prefix = replacement.split(['$', '\\']).next().filter(|prefix| !prefix.is_empty())?;
    let (topics, age) = sink::aging_topics(sink_settings(config), prefix.to_owned()).await?;
    let delete = if topics.len() == 1 { "deletes" } else { "delete" };
    let text = format!(
        "records get their timestamp from the column {column} \
         (`debezium.table_field_event_timestamp`), and {} {delete} them by it, {} after that \
         time, not after they were sent: an event sent later, as after a long outage or by a \
         backfill, is deleted before it is read; set message.timestamp.type of the topic to \
         LogAppendTime, or retention.ms to -1, or remove the setting",
        topics.join(", "),
        duration::text(age),
    );
    Some(Finding { fatal: false, text })
}
