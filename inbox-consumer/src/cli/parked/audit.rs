//! `parked audit`.

use inbox_store::internal::port::{AuditFilter, AuditRow, Operators};
use service_kit::printed;

use super::{
    super::{Exit, Terminal, table, words::plain},
    args::Audit,
};
use crate::config::Config;

pub(super) async fn audit<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    audit: &Audit,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let filter = AuditFilter {
        topic: audit.topic.clone(),
        partition: audit.partition,
        offset: audit.offset,
        who: audit.who.clone(),
        what: audit.what.clone(),
    };
    let acts = DB::acts(conn, &config.consumer.name, &filter, audit.limit).await?;
    terminal.say(if audit.json {
        printed::json(&acts)
    } else if acts.is_empty() {
        "no audit entry matches".into()
    } else {
        rendered(&acts)
    });
    Ok(Exit::Done)
}

/// The acts for people.
pub(super) fn rendered(acts: &[AuditRow]) -> String {
    let heads = ["AT", "WHO", "WHAT", "PLACE", "TYPE", "AGGREGATE", "WHY"];
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".into(), |t| plain(t, 40));
    let lines: Vec<_> = acts
        .iter()
        .map(|act| {
            [
                act.at.clone(),
                plain(&act.who, 40),
                act.what.clone(),
                place(act),
                text(&act.event_type),
                text(&act.aggregate),
                plain(&act.why, 80),
            ]
        })
        .collect();
    table::aligned(heads, &lines)
}

fn place(act: &AuditRow) -> String {
    let part = |number: Option<String>| number.unwrap_or_else(|| "?".into());
    let topic = part(act.topic.clone());
    let partition = part(act.partition.map(|partition| partition.to_string()));
    match act.offset {
        Some(offset) => format!("{topic}/{partition}@{offset}"),
        None => format!("{topic}/{partition}"),
    }
}
