//! `parked list`.

use std::io::{self, IsTerminal as _};

use inbox_store::internal::port::{Operators, Page, ParkedCounts, ParkedRow};
use service_kit::printed;

use super::{
    super::{
        Exit, Terminal, table,
        words::{counted, plain, turn},
    },
    args::List,
};
use crate::config::Config;

/// What `--json` writes.
#[derive(serde::Serialize)]
struct Document<'a> {
    parked: &'a [ParkedRow],
    counts: ParkedCounts,
}

pub(super) async fn list<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    list: &List,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let (name, filter) = (&config.consumer.name, list.filter());
    let page = Page { limit: list.limit, newest: list.newest };
    let rows = DB::list(conn, name, &filter, page).await?;
    let counts = DB::counts(conn, name, &filter).await?;
    if list.json {
        let document = Document { parked: &rows, counts };
        terminal.say(printed::json(&document));
        return Ok(Exit::Done);
    }
    if !rows.is_empty() {
        terminal.say(rendered(&rows, io::stdout().is_terminal()));
        terminal.say("");
    }
    terminal.say(summary(counts, rows.len(), filter.followers));
    Ok(Exit::Done)
}

/// The rows for people. On a terminal long texts are cut; what goes into a file or another program is whole.
pub(crate) fn rendered(rows: &[ParkedRow], cut: bool) -> String {
    let at_most = |longest: usize| if cut { longest } else { usize::MAX };
    let heads = [
        "SEQ",
        "FROM",
        "AGGREGATE",
        "TYPE",
        "REASON",
        "DUE",
        "ATTEMPTS",
        "RELEASES",
        "BEHIND",
        "LAST ERROR",
    ];
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            [
                row.seq.to_string(),
                format!("{}/{}@{}", row.topic, row.partition, row.offset),
                named(&row.aggregate, at_most(40)),
                named(&row.event_type, at_most(40)),
                row.reason.clone(),
                turn(row),
                row.attempts.to_string(),
                row.releases.to_string(),
                row.followers.to_string(),
                row.error.as_deref().map_or_else(String::new, |error| plain(error, at_most(60))),
            ]
        })
        .collect();
    table::aligned(heads, &lines)
}

fn named(text: &str, longest: usize) -> String {
    if text.is_empty() { "?".into() } else { plain(text, longest) }
}

/// How many there are.
pub(crate) fn summary(counts: ParkedCounts, shown: usize, followers: bool) -> String {
    let ParkedCounts { events, aggregates, followers: following, due, scheduled, waiting } = counts;
    if events == 0 {
        return "no parked event matches".into();
    }
    let whole = if followers { events } else { events - following };
    let cut = usize::try_from(whole).is_ok_and(|whole| shown < whole);
    let cut = if cut { format!("; {shown} shown, --limit shows more") } else { String::new() };
    let hidden = following > 0 && !followers;
    let more = if hidden { "; --followers includes those that follow" } else { "" };
    format!(
        "{} of {} parked: {due} due now, {scheduled} scheduled for retry, {waiting} waiting for \
         manual action, {following} following another one{cut}{more}",
        counted(events, "event"),
        counted(aggregates, "aggregate"),
    )
}
