//! `failed`: rows that were set aside, until a person decides or until their next attempt.

use service_kit::{
    cli::columns,
    printed::{self, counted},
};

use super::{
    Exit, Terminal,
    args::{Hand, Verb},
    failed_call, on, open, options, show,
};
use crate::{
    config::Config,
    port::{
        Act, Choice, FailedRow, FeedError, Operators, ReportedOutage, Step, is_destination, whole,
    },
    relay::address,
};

/// What is done, once it is clear to which rows.
enum Deed {
    List { json: bool, max: u32 },
    Retry(Hand),
    Discard(Hand),
}

/// Lists, shows, retries or discards.
pub(super) async fn failed(config: &Config, verb: &Verb, terminal: &mut Terminal<'_>) -> Exit {
    let (which, deed) = match verb {
        Verb::List { which, json, max } => (which, Deed::List { json: *json, max: *max }),
        Verb::Retry { which, hand } => (which, Deed::Retry(hand.clone())),
        Verb::Discard { which, hand } => (which, Deed::Discard(hand.clone())),
        Verb::Show { seq, json } => {
            let options = match options(config, terminal) {
                Ok(options) => options,
                Err(exit) => return exit,
            };
            let show = (*seq, *json);
            return on!(&options, shown(settings, show, terminal), &address(config));
        }
    };
    let choice = match which.choice(!matches!(deed, Deed::List { .. })) {
        Ok(choice) => choice,
        Err(text) => {
            terminal.complain(text);
            return Exit::Usage;
        }
    };
    let options = match options(config, terminal) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    on!(&options, done(settings, &choice, deed, terminal), &address(config))
}

fn who(by: Option<&str>) -> String {
    let env: Vec<(String, String)> = std::env::vars().collect();
    by.map_or_else(|| service_kit::cli::who(&env, &service_kit::host()), str::to_owned)
}

async fn shown<F: Operators>(
    settings: F::Settings,
    (seq, json): (i64, bool),
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut session = match open::<F>(&settings, terminal).await {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    let found = whole::<F, _>(&settings, &mut session, async |s| {
        F::content(s, seq, show::PAYLOAD_MAX).await
    });
    let found = found.await;
    F::close_hard(session).await;
    match found {
        Ok(Some(row)) => {
            terminal.say(show::rendered(&row, json));
            Exit::Done
        }
        Ok(None) => {
            terminal.complain(format!(
                "the outbox has no row {seq}: it was deleted after `retention.sent`, or has \
                 another number"
            ));
            Exit::Usage
        }
        Err(error) => failed_call(&error, terminal),
    }
}

async fn done<F: Operators>(
    settings: F::Settings,
    choice: &Choice,
    deed: Deed,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut session = match open::<F>(&settings, terminal).await {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    let said = match deed {
        Deed::List { json, max } => {
            let read = async |s: &mut F::Session| {
                Ok::<_, FeedError>((
                    F::failed(s, choice, max).await?,
                    F::destination_outages(s).await?,
                ))
            };
            whole::<F, _>(&settings, &mut session, read)
                .await
                .map(|(rows, outages)| listed(&rows, &outages, choice, json))
        }
        Deed::Retry(Hand { by, reason, json }) => {
            let who = who(by.as_deref());
            let act = Act { who: &who, why: reason.trim() };
            let step = async |s: &mut F::Session, after| F::retry(s, choice, after, act).await;
            let all = steps::<F>(&settings, &mut session, step).await;
            all.map(|all| if json { changed(all) } else { describe_retry(all) })
        }
        Deed::Discard(Hand { by, reason, json }) => {
            let who = who(by.as_deref());
            let act = Act { who: &who, why: reason.trim() };
            let step = async |s: &mut F::Session, after| F::discard(s, choice, after, act).await;
            let all = steps::<F>(&settings, &mut session, step).await;
            all.map(|all| if json { changed(all) } else { describe_discard(all) })
        }
    };
    F::close_hard(session).await;
    match said {
        Ok(text) => {
            terminal.say(text);
            Exit::Done
        }
        Err(error) => failed_call(&error, terminal),
    }
}

/// What all steps of a command have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Steps {
    /// Rows that were changed.
    pub(super) rows: u64,
    /// Rows that were left as they are, since a relay is delivering them.
    pub(super) claimed: u64,
}

/// How many rows were changed, for machines.
fn changed(Steps { rows, claimed }: Steps) -> String {
    printed::json(&serde_json::json!({ "rows": rows, "claimed": claimed }))
}

/// Goes through all rows that are meant, in short transactions: those that fail again meanwhile are behind.
async fn steps<F: Operators>(
    settings: &F::Settings,
    session: &mut F::Session,
    step: impl AsyncFn(&mut F::Session, i64) -> Result<Step, FeedError>,
) -> Result<Steps, FeedError> {
    let (mut all, mut after) = (Steps::default(), 0);
    loop {
        let done = whole::<F, _>(settings, session, async |s| step(s, after).await).await?;
        all.rows += done.rows;
        all.claimed += done.claimed;
        let Some(last) = done.last else { return Ok(all) };
        after = last;
    }
}

/// What became of rows that are sent once more.
pub(super) fn describe_retry(steps: Steps) -> String {
    let whose = if steps.rows == 1 { "its aggregate" } else { "their aggregates" };
    let text =
        format!("{} will be sent again, in the order of {whose}", counted(steps.rows, "row"));
    with_claimed(text, steps.claimed)
}

/// What became of rows that are given up.
pub(super) fn describe_discard(steps: Steps) -> String {
    let (are, them) = if steps.rows == 1 { ("is", "it") } else { ("are", "them") };
    let text = format!(
        "{} {are} discarded; rows blocked behind {them} are sent",
        counted(steps.rows, "row")
    );
    with_claimed(text, steps.claimed)
}

/// A sentence, and one more about rows that are being delivered.
fn with_claimed(text: String, claimed: u64) -> String {
    if claimed == 0 {
        return text;
    }
    let (are, were) = if claimed == 1 { ("is", "was") } else { ("are", "were") };
    let rows = counted(claimed, "row");
    format!("{text}\n{rows} {are} being delivered right now and {were} left alone; try again")
}

/// The rows of a choice for people, or for machines. People read below them which destinations are down: rows that wait
/// for these are not among them.
pub(super) fn listed(
    rows: &[FailedRow],
    outages: &[ReportedOutage],
    choice: &Choice,
    json: bool,
) -> String {
    if json {
        let document = serde_json::json!({ "rows": rows, "destination_outages": outages });
        return printed::json(&document);
    }
    let outage = |ReportedOutage { destination, seconds, error }: &ReportedOutage| {
        printed::line(&format!(
            "destination {destination} has been down for {seconds} s; its rows are sent once it \
             recovers: {error}"
        ))
    };
    let lines = std::iter::once(table(rows, choice)).chain(outages.iter().map(outage));
    lines.collect::<Vec<_>>().join("\n")
}

fn table(rows: &[FailedRow], choice: &Choice) -> String {
    if rows.is_empty() {
        let said = if *choice == Choice::default() {
            "no row is parked or in retry"
        } else {
            "no row that is parked or in retry matches"
        };
        return said.into();
    }
    let cells = |row: &FailedRow| {
        [
            row.seq.to_string(),
            row.aggregate.clone(),
            row.event_type.clone(),
            row.event_id.clone(),
            state(row),
            row.failed_seconds.to_string(),
            row.behind.to_string(),
            row.error.clone(),
        ]
    };
    let rows: Vec<[String; 8]> = rows.iter().map(cells).collect();
    let heads = ["SEQ", "AGGREGATE", "TYPE", "EVENT", "STATE", "SECONDS AGO", "BLOCKED", "ERROR"];
    columns(heads, &rows, [false; 8])
}

/// What becomes of a row by itself.
fn state(row: &FailedRow) -> String {
    let tries = row.attempts + 1;
    match (row.retry_seconds, &row.waits_for) {
        (Some(0), _) => format!("retry now (attempt {tries})"),
        (Some(seconds), _) => format!("retry in {seconds} s (attempt {tries})"),
        (None, Some(name)) => show::waits_for(is_destination(name)).into(),
        (None, None) => "parked".into(),
    }
}
