//! `--wait`: until what was asked for has happened, or why it has not.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use inbox_store::internal::port::{Intended, IntentRequest, IntentState, Operators};

use super::super::{
    Exit, Terminal,
    session::again,
    words::{counted, doubtful, plain, verb},
};
/// Asked about at once.
const CHUNK: usize = 500;
const PAUSE: Duration = Duration::from_millis(200);
/// Failures that are told one by one.
const TOLD_MAX: usize = 10;

/// Waits up to a time. Events are asked about in their order, so each look is a small one.
pub(super) async fn wait<DB: Operators>(
    conn: &mut DB::Connection,
    order: &IntentRequest,
    written: Vec<Intended>,
    time: Duration,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let (began, all) = (Instant::now(), written.len());
    let (mut waiting, mut stuck) = (written, Vec::new());
    while !waiting.is_empty() {
        let rest = waiting.split_off(waiting.len().min(CHUNK));
        waiting = sift::<DB>(conn, order, waiting, &mut stuck).await?;
        let late = began.elapsed() >= time;
        if late {
            for chunk in rest.chunks(CHUNK) {
                waiting.extend(sift::<DB>(conn, order, chunk.to_vec(), &mut stuck).await?);
            }
            break;
        }
        if !waiting.is_empty() {
            tokio::time::sleep(PAUSE.min(time.saturating_sub(began.elapsed()))).await;
        }
        waiting.extend(rest);
    }
    Ok(told(order, (all, waiting.len()), &stuck, time, terminal))
}

/// Those that are still to happen.
async fn sift<DB: Operators>(
    conn: &mut DB::Connection,
    order: &IntentRequest,
    chunk: Vec<Intended>,
    stuck: &mut Vec<IntentState>,
) -> Result<Vec<Intended>, sqlx::Error> {
    let intent_states = look::<DB>(conn, order, &chunk).await?;
    let (pending, failed): (Vec<_>, Vec<_>) = intent_states.into_iter().partition(|o| o.pending);
    stuck.extend(failed);
    let pending: HashSet<i64> = pending.into_iter().map(|outcome| outcome.seq).collect();
    Ok(chunk.into_iter().filter(|intended| pending.contains(&intended.seq)).collect())
}

async fn look<DB: Operators>(
    conn: &mut DB::Connection,
    order: &IntentRequest,
    chunk: &[Intended],
) -> Result<Vec<IntentState>, sqlx::Error> {
    let mut tries = 0;
    loop {
        match DB::intent_states(conn, order, chunk).await {
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            answer => return answer,
        }
    }
}

fn told(
    order: &IntentRequest,
    (all, waiting): (usize, usize),
    stuck: &[IntentState],
    time: Duration,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let (verb, done) = verb(order.intent);
    let count = |count: usize| counted(i64::try_from(count).unwrap_or(i64::MAX), "event");
    let gone = all - waiting - stuck.len();
    if gone > 0 {
        terminal.say(format!("{done}: {}, and what followed", count(gone)));
    }
    for outcome in stuck.iter().take(TOLD_MAX) {
        terminal.complain(failure(outcome));
    }
    if stuck.len() > TOLD_MAX {
        terminal.complain(format!("and {} more like that", stuck.len() - TOLD_MAX));
    }
    if waiting > 0 {
        terminal.complain(format!(
            "{} still pending after {}: check that a consumer runs and that `status` shows it as \
             the owner. The {verb} stays requested",
            count(waiting),
            humantime::format_duration(time)
        ));
    }
    if waiting + stuck.len() == 0 { Exit::Done } else { Exit::Unfinished }
}

fn failure(outcome: &IntentState) -> String {
    let IntentState { seq, rest, reason, error, .. } = outcome;
    let event = if seq == rest { format!("{seq}") } else { format!("{rest}, behind {seq},") };
    let error = error.as_deref().map_or("no error was recorded".into(), |error| plain(error, 500));
    if doubtful(reason) {
        return format!(
            "{event} is now parked as {reason}: a handler ended its transaction, and the effect \
             may be committed; `parked show {rest}` explains what to do"
        );
    }
    format!("{event} failed again and stays parked as {reason}: {error}")
}
