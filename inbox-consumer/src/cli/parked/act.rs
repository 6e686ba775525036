//! `parked release` and `parked discard`: intents, with their row in the audit.

use std::time::Duration;

use inbox_store::internal::port::{
    Intended, Intent, IntentRequest, Operators, Page, ParkedFilter, Weight,
};
use service_kit::printed;

use super::{
    super::{
        Exit, Terminal,
        hand::who,
        session::again,
        words::{counted, reason, seconds_in_words, verb},
    },
    args::{Acting, Parked},
    show, wait,
};
use crate::config::Config;

/// Intents of one transaction.
const CHUNK: u32 = 1_000;
/// How often events that a transaction holds are asked for again, a moment apart.
const ROUNDS_MAX: u32 = 20;
/// Partitions that are told of one by one.
const PARTITIONS_MAX: usize = 20;

/// What is to be done, before anything is looked at.
pub(super) struct Plan {
    order: IntentRequest,
    filter: ParkedFilter,
    yes: bool,
    wait: Option<Duration>,
}

/// Reads the arguments; `None` for a command that only looks.
pub(super) fn plan(command: &Parked, env: &[(String, String)]) -> Result<Option<Plan>, String> {
    let (intent, acting) = match command {
        Parked::Release(acting) => (Intent::Release, acting),
        Parked::Discard(acting) => (Intent::Discard, acting),
        Parked::List(_) | Parked::Show { .. } | Parked::Audit(_) => return Ok(None),
    };
    let Acting { why, hand, wait, .. } = acting;
    let filter = acting.filter()?;
    let why = why.as_deref().unwrap_or_default().trim().to_owned();
    if intent == Intent::Discard && why.is_empty() {
        return Err(
            "a discard needs --why TEXT: the events are given up, and the audit keeps the reason"
                .into(),
        );
    }
    let order =
        IntentRequest { intent, who: who(hand.name.as_deref(), env)?, why, force: hand.force };
    Ok(Some(Plan { order, filter, yes: hand.yes, wait: *wait }))
}

/// Looks, asks if need be, writes the intents, tells what will happen, waits if asked to.
pub(super) async fn act<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    plan: &Plan,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let name = &config.consumer.name;
    let filter = from_head::<DB>(conn, name, plan, terminal).await?;
    let weights = DB::weigh(conn, name, &filter, &plan.order).await?;
    let sum = sum(&weights);
    if let Some(exit) = refused::<DB>(conn, config, (plan, &filter, &sum), terminal).await? {
        return Ok(exit);
    }
    if filter.seq.is_none() && !plan.yes {
        terminal.refuse(&question(plan.order.intent, &sum, &weights));
        return Ok(Exit::Refused);
    }
    let written = write::<DB>(conn, name, (&filter, &plan.order), terminal).await?;
    left_alone(&plan.order, &sum, terminal);
    terminal.say(told(plan.order.intent, &written, &sum));
    for line in owners(&weights, config.kafka.session_timeout) {
        terminal.say(line);
    }
    match plan.wait {
        Some(time) if !written.is_empty() => {
            wait::wait::<DB>(conn, &plan.order, written, time, terminal).await
        }
        _ => Ok(Exit::Done),
    }
}

/// A release begins with the first event of its queue.
async fn from_head<DB: Operators>(
    conn: &mut DB::Connection,
    consumer: &str,
    plan: &Plan,
    terminal: &mut Terminal<'_>,
) -> Result<ParkedFilter, sqlx::Error> {
    let filter = plan.filter.clone();
    let (Some(seq), Intent::Release) = (filter.seq, plan.order.intent) else { return Ok(filter) };
    let rows = DB::list(conn, consumer, &filter, Page { limit: 1, newest: false }).await?;
    let Some(row) = rows.first().filter(|row| row.head != seq) else { return Ok(filter) };
    terminal.say(format!(
        "{seq} follows {} of the same aggregate: the release starts there and reaches {seq} in \
         order",
        row.head
    ));
    Ok(ParkedFilter { seq: Some(row.head), ..filter })
}

fn sum(weights: &[Weight]) -> Weight {
    weights.iter().filter(|weight| !weight.retired).fold(Weight::default(), |mut sum, weight| {
        sum.events += weight.events;
        sum.free += weight.free;
        sum.behind += weight.behind;
        sum.doubtful += weight.doubtful;
        sum.same += weight.same;
        sum.opposite += weight.opposite;
        sum.following += weight.following;
        sum
    })
}

/// Why nothing can be done, if so.
async fn refused<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    (plan, filter, sum): (&Plan, &ParkedFilter, &Weight),
    terminal: &mut Terminal<'_>,
) -> Result<Option<Exit>, sqlx::Error> {
    if sum.free > 0 {
        return Ok(None);
    }
    let (verb, done) = verb(plan.order.intent);
    let Some(seq) = filter.seq else {
        if sum.same + sum.doubtful + sum.opposite + sum.following == 0 {
            terminal.say("no parked event matches");
            return Ok(Some(Exit::Done));
        }
        left_alone(&plan.order, sum, terminal);
        terminal.say(format!("there is nothing else to {verb}"));
        let left = sum.doubtful + sum.opposite > 0;
        return Ok(Some(if left { Exit::Refused } else { Exit::Done }));
    };
    let one = ParkedFilter { seq: Some(seq), followers: true, ..ParkedFilter::default() };
    let page = Page { limit: 1, newest: false };
    let rows = DB::list(conn, &config.consumer.name, &one, page).await?;
    let Some(row) = rows.first() else {
        terminal.complain(show::missing(seq, &config.consumer.name));
        return Ok(Some(Exit::Refused));
    };
    let by = row.intent_by.as_deref().unwrap_or("somebody");
    let at = row.intent_at.as_deref().unwrap_or("some time ago");
    if row.retired {
        terminal.complain(format!(
            "the rows of {}/{} were retired, and no process will own them again: discard what is \
             parked there with `retire --topic {} --discard-parked`",
            row.topic, row.partition, row.topic
        ));
    } else if row.intent.as_deref() == Some(plan.order.intent.as_str()) {
        terminal.say(format!("{by} already requested that at {at}: {seq} will be {done}"));
        return Ok(Some(Exit::Done));
    } else if let Some(intent) = &row.intent {
        terminal.complain(format!(
            "{by} requested at {at} to {intent} {seq}; --force overrides \
                                   that"
        ));
    } else {
        let (means, advice) = reason(&row.reason);
        terminal.complain(format!("{seq} is parked as {}: {means}; {advice}", row.reason));
    }
    Ok(Some(Exit::Refused))
}

/// A bulk act shows how many first.
fn question(intent: Intent, sum: &Weight, weights: &[Weight]) -> String {
    let partitions = weights.iter().filter(|weight| weight.free > 0).count();
    let places = if partitions == 1 { "" } else { "s" };
    let events = counted(sum.free, "parked event");
    match intent {
        Intent::Release => format!(
            "dry run: this would release {events}{}, in {partitions} partition{places}; nothing \
             was changed: add --yes to apply",
            behind(sum)
        ),
        Intent::Discard => format!(
            "dry run: this would discard {events} permanently, in {partitions} partition{places}; \
             nothing was changed: add --yes to apply"
        ),
    }
}

/// The events queued behind them, if there are any.
fn behind(sum: &Weight) -> String {
    match sum.behind {
        0 => String::new(),
        count => format!(" plus {count} queued behind"),
    }
}

/// What matched and stays as it is.
fn left_alone(order: &IntentRequest, sum: &Weight, terminal: &mut Terminal<'_>) {
    let (verb, _) = verb(order.intent);
    if sum.doubtful > 0 {
        terminal.warn(format!(
            "{} skipped: parked as torn or releasing, so their effects may be committed; check \
             the tables that their handlers write to, then {verb} them with --force",
            counted(sum.doubtful, "event")
        ));
    }
    if sum.opposite > 0 {
        terminal.warn(format!(
            "{} skipped: the opposite was requested; --force overrides that",
            counted(sum.opposite, "event")
        ));
    }
    if sum.same > 0 {
        terminal.say(format!("{} already requested", counted(sum.same, "event")));
    }
    if sum.following > 0 {
        terminal.say(format!(
            "{} chosen behind earlier ones of the same aggregate: run after those",
            counted(sum.following, "event")
        ));
    }
}

/// Writes the intents in chunks of one transaction each. What a transaction of the owner holds is
/// asked for again a few times.
async fn write<DB: Operators>(
    conn: &mut DB::Connection,
    consumer: &str,
    (filter, order): (&ParkedFilter, &IntentRequest),
    terminal: &mut Terminal<'_>,
) -> Result<Vec<Intended>, sqlx::Error> {
    let mut written = Vec::new();
    for round in 1..=ROUNDS_MAX {
        all::<DB>(conn, consumer, (filter, order), &mut written).await?;
        let left = sum(&DB::weigh(conn, consumer, filter, order).await?).free;
        if left == 0 {
            break;
        }
        if round == ROUNDS_MAX {
            terminal.warn(format!(
                "{} skipped: their owner has them in a transaction right now; run the command \
                 again",
                counted(left, "event")
            ));
        } else {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(written)
}

async fn all<DB: Operators>(
    conn: &mut DB::Connection,
    consumer: &str,
    (filter, order): (&ParkedFilter, &IntentRequest),
    written: &mut Vec<Intended>,
) -> Result<(), sqlx::Error> {
    let (mut after, mut tries) = (0, 0);
    loop {
        match DB::intend(conn, consumer, filter, order, after, CHUNK).await {
            Ok(chunk) if chunk.is_empty() => return Ok(()),
            Ok(chunk) => {
                after = chunk.last().map_or(after, |last| last.seq);
                written.extend(chunk);
                tries = 0;
            }
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            Err(error) => return Err(error),
        }
    }
}

/// What will happen.
fn told(intent: Intent, written: &[Intended], sum: &Weight) -> String {
    let count = i64::try_from(written.len()).unwrap_or(i64::MAX);
    let (events, will) = (counted(count, "event"), if count == 1 { "it" } else { "them" });
    match intent {
        Intent::Release => format!(
            "release requested: {events}{}. The owning process runs {} in order and stops at the \
             first failure of an aggregate",
            behind(sum),
            if sum.behind > 0 { "them" } else { will }
        ),
        Intent::Discard => format!(
            "discard requested: {events}. The owning process removes {will} without running, and \
             later events of the aggregate run next"
        ),
    }
}

/// Who will do it.
fn owners(weights: &[Weight], silence_max: Duration) -> Vec<String> {
    let touched: Vec<&Weight> = weights.iter().filter(|w| w.free > 0 && !w.retired).collect();
    let mut lines: Vec<String> =
        touched.iter().take(PARTITIONS_MAX).map(|weight| owner(weight, silence_max)).collect();
    if touched.len() > PARTITIONS_MAX {
        lines.push(format!("and {} more partitions", touched.len() - PARTITIONS_MAX));
    }
    lines
}

pub(super) fn owner(weight: &Weight, silence_max: Duration) -> String {
    let place = format!("{}/{}", weight.topic, weight.partition);
    let line = match (&weight.owner, weight.owner_seen_seconds) {
        (Some(owner), Some(seen)) if seen <= silence_max.as_secs_f64() => {
            format!(
                "{place} is owned by {owner} (last seen {seen:.0} s ago), which will do this \
                 within seconds"
            )
        }
        (Some(owner), Some(seen)) => format!(
            "{place} is owned by {owner}, silent for {}; this is done once that process or \
             another consumer runs",
            seconds_in_words(seen)
        ),
        _ => format!("{place} has no owner now; this is done once a consumer runs"),
    };
    // Names and reasons are the owner's own words: one line all the same.
    printed::line(&match &weight.standstill {
        Some(standstill) => format!("{line}. It is stalled: {standstill}"),
        None => line,
    })
}
