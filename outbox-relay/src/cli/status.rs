//! `status`: how the outbox stands.

use std::fmt::Write as _;

use service_kit::printed;

use super::{Exit, Terminal, failed_call, on, open, options};
use crate::{
    config::Config,
    port::{Operators, Overview, ReportedOutage, whole},
    relay::address,
};

/// What the database knows.
pub(super) async fn status(config: &Config, json: bool, terminal: &mut Terminal<'_>) -> Exit {
    let options = match options(config, terminal) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    on!(&options, shown(settings, json, terminal), &address(config))
}

async fn shown<F: Operators>(
    settings: F::Settings,
    json: bool,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut session = match open::<F>(&settings, terminal).await {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    let overview = whole::<F, _>(&settings, &mut session, async |s| F::overview(s).await).await;
    F::close_hard(session).await;
    match overview {
        Ok(overview) if json => {
            terminal.say(printed::json(&overview));
            Exit::Done
        }
        Ok(overview) => {
            terminal.say(table(&overview));
            Exit::Done
        }
        Err(error) => failed_call(&error, terminal),
    }
}

/// The overview for people.
pub(super) fn table(overview: &Overview) -> String {
    let mut text = String::new();
    let seconds = |seconds: Option<i64>| seconds.map_or("-".to_owned(), |s| format!("{s} s"));
    let mut row = |name: &str, value: String| {
        _ = writeln!(text, "{name:<18}{}", printed::line(&value));
    };
    row("waiting", overview.waiting.to_string());
    row("  blocked", overview.held.to_string());
    row("  oldest", seconds(overview.oldest_seconds));
    row("parked", overview.failed.to_string());
    row("in retry", later(overview.retrying, overview));
    row("delayed", later(overview.delayed, overview));
    row("missing topic", named(overview.waiting_for_topic, &overview.missing_topics));
    row("destination down", destinations(overview));
    row("sent, kept", overview.sent.to_string());
    let others = match overview.relays {
        0 | 1 => String::new(),
        relays => format!(" and {} more", relays - 1),
    };
    row("active relay", overview.holder.clone().unwrap_or_else(|| "-".into()) + &others);
    row("  since", seconds(overview.taken_seconds));
    row("  lease left", seconds(overview.lease_left_seconds));
    row("lease number", overview.fence.to_string());
    row("stalled", why(overview).unwrap_or_default());
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Stalls that need manual action even if no row waits.
const WITHOUT_ROWS: [&str; 3] = ["sequence_behind: ", "id_shared: ", "forbidden: "];

/// Rows that are sent automatically later, and when the next of them is due.
fn later(rows: i64, overview: &Overview) -> String {
    match overview.next_due_seconds {
        Some(seconds) if rows > 0 => format!("{rows} (next row in {seconds} s)"),
        _ => rows.to_string(),
    }
}

/// Rows that wait for something, and for what.
fn named(rows: i64, names: &[String]) -> String {
    if names.is_empty() { rows.to_string() } else { format!("{rows} ({})", names.join(", ")) }
}

/// The destinations that are down, and how many rows wait for them in the database.
fn destinations(overview: &Overview) -> String {
    let rows = named(overview.waiting_for_destination, &overview.destinations_out);
    if overview.destination_outages.is_empty() {
        return rows;
    }
    let outage = |ReportedOutage { destination, seconds, error }: &ReportedOutage| {
        format!("{destination} for {seconds} s: {error}")
    };
    let outages: Vec<String> = overview.destination_outages.iter().map(outage).collect();
    match overview.waiting_for_destination {
        0 => outages.join("; "),
        _ => format!("{}; rows waiting for it: {rows}", outages.join("; ")),
    }
}

/// Why nothing is shipped, as far as the database knows.
fn why(overview: &Overview) -> Option<String> {
    if overview.waiting + overview.retrying + overview.delayed == 0 {
        let told = |why: &String| WITHOUT_ROWS.iter().any(|name| why.starts_with(name));
        return overview.standstill.clone().filter(told);
    }
    match (&overview.holder, overview.lease_left_seconds) {
        (Some(_), Some(1..)) => overview.standstill.clone(),
        (Some(holder), _) => Some(format!(
            "relay_silent: {holder} is silent and its lease has expired; start a relay, or check \
             why none reaches the database"
        )),
        (None, _) => Some("no_relay: no relay is running; start one".into()),
    }
}
