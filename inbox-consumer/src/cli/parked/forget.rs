//! `forget`: what the inbox keeps in words of one aggregate is erased.
//!
//! Its parked events are discarded by their owner, in order, as any discard is; then the audit loses its name and
//! what was said of it. Inbox rows stay: without them a copy of an event would be a new one.

use std::time::{Duration, Instant};

use clap::Args;
use inbox_store::internal::port::{
    Forgotten, Intent, IntentRequest, Operators, Page, ParkedFilter, ParkedRow,
};

use super::{
    super::{
        Exit, Terminal,
        hand::{Hand, who},
        session::{again, open_current, report_failure},
        words::counted,
    },
    args,
};
use crate::config::Config;

/// Parked events of one aggregate that are read together.
const PAGE: Page = Page { limit: 1_000, newest: false };
const PAUSE: Duration = Duration::from_millis(200);
/// What the audit has in the place of a reason.
const WHY: &str = "forget";

/// What the user typed behind `forget`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(crate) struct Forget {
    /// The aggregate: TYPE/ID, exactly as `parked list` shows it
    #[arg(long, value_name = "TYPE/ID")]
    aggregate: String,
    /// Only what came from this topic
    #[arg(long)]
    topic: Option<String>,
    /// Wait this long for the owner to discard the parked events
    #[arg(long, value_name = "DURATION", value_parser = args::duration, default_value = "30s")]
    wait: Duration,
    #[command(flatten)]
    hand: Hand,
}

/// Discards what is parked of the aggregate, waits for that, and erases the words.
pub(crate) async fn forget<DB: Operators>(
    config: &Config,
    forget: &Forget,
    env: &[(String, String)],
    terminal: &mut Terminal<'_>,
) -> Exit {
    let who = match who(forget.hand.name.as_deref(), env) {
        Ok(who) => who,
        Err(text) => {
            terminal.complain(text);
            return Exit::Usage;
        }
    };
    if !forget.hand.yes {
        terminal.refuse(
            "dry run: this erases what is kept of the aggregate permanently, its parked events \
             included; nothing was changed: add --yes to apply",
        );
        return Exit::Refused;
    }
    let mut conn = match open_current::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let done = erase::<DB>(&mut conn, config, (forget, who), terminal).await;
    DB::close_hard(conn).await;
    done.unwrap_or_else(|error| report_failure::<DB>(config, &error, terminal))
}

async fn erase<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    (forget, who): (&Forget, String),
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let consumer = &config.consumer.name;
    let (began, mut asked) = (Instant::now(), 0);
    loop {
        let parked = parked::<DB>(conn, consumer, forget).await?;
        if let Some(row) = parked.iter().find(|row| row.retired) {
            terminal.complain(format!(
                "{} is parked in rows that were retired and have no owner: discard what is parked \
                 there with `retire --topic {} --discard-parked`, then run this again; nothing is \
                 erased yet",
                row.seq, row.topic
            ));
            return Ok(Exit::Refused);
        }
        if parked.is_empty() {
            break;
        }
        asked += ask::<DB>(conn, consumer, &parked, &who).await?;
        if began.elapsed() >= forget.wait {
            terminal.complain(format!(
                "{} of it still parked after {}: check that a consumer runs and that `status` \
                 shows it as the owner. The discard stays requested; run this again once it is \
                 done: the audit is not erased yet",
                counted(i64::try_from(parked.len()).unwrap_or(i64::MAX), "event"),
                humantime::format_duration(forget.wait)
            ));
            return Ok(Exit::Unfinished);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let (aggregate, topic) = (forget.aggregate.clone(), forget.topic.clone());
    let forgotten = Forgotten { aggregate, topic, who };
    let mut tries = 0;
    let acts = loop {
        match DB::forget(conn, consumer, &forgotten).await {
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            answer => break answer?,
        }
    };
    terminal.say(format!(
        "forgotten: {} discarded, and names and texts removed from {} of the audit; inbox rows \
         stay",
        counted(asked, "parked event"),
        counted(i64::try_from(acts).unwrap_or(i64::MAX), "act")
    ));
    Ok(Exit::Done)
}

/// What is parked of this aggregate and of no other: the filter also finds those whose id alone is the text.
async fn parked<DB: Operators>(
    conn: &mut DB::Connection,
    consumer: &str,
    forget: &Forget,
) -> Result<Vec<ParkedRow>, sqlx::Error> {
    let filter = ParkedFilter {
        aggregate: Some(forget.aggregate.clone()),
        topic: forget.topic.clone(),
        followers: true,
        ..ParkedFilter::default()
    };
    let rows = DB::list(conn, consumer, &filter, PAGE).await?;
    Ok(rows.into_iter().filter(|row| row.aggregate == forget.aggregate).collect())
}

/// Asks for the discard of those for which that is not asked yet; how many these were.
async fn ask<DB: Operators>(
    conn: &mut DB::Connection,
    consumer: &str,
    parked: &[ParkedRow],
    who: &str,
) -> Result<i64, sqlx::Error> {
    let order =
        IntentRequest { intent: Intent::Discard, who: who.into(), why: WHY.into(), force: true };
    let mut asked = 0;
    let free = |row: &&ParkedRow| row.intent.as_deref() != Some(order.intent.as_str());
    for row in parked.iter().filter(free) {
        let one = ParkedFilter { seq: Some(row.seq), followers: true, ..ParkedFilter::default() };
        let mut tries = 0;
        asked += loop {
            match DB::intend(conn, consumer, &one, &order, 0, 1).await {
                Err(error) if again::<DB>(&error, &mut tries).await => {}
                answer => break i64::try_from(answer?.len()).unwrap_or(i64::MAX),
            }
        };
    }
    Ok(asked)
}
