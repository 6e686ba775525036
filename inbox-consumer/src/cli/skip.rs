//! `skip`: what lies below an offset counts as settled from now on.

use clap::Args;
use inbox_engine::internal::{LogRange, NextOffset};
use inbox_store::internal::port::{
    Beginning, Corrected, Correction, Operators, PartitionRecord, Placement,
};
use kafka_kit::internal::{BrokerError, TopicLogs};
use outbox_core::TopicPartition;

use super::{
    Exit, Terminal,
    correcting::{Signed, begun, owned, without_log},
    hand::Hand,
    session::{again, report_failure},
    words::counted,
};
use crate::{config::Config, consumer::kafka_settings};

/// What the user typed behind `skip`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(super) struct Skip {
    /// The topic
    #[arg(long)]
    topic: String,
    /// The partition
    #[arg(long, value_name = "NUMBER")]
    partition: i32,
    /// First offset that is kept: a number, `start` or `end` of the log, or the group's `committed`
    /// offset
    #[arg(long, value_name = "OFFSET", value_parser = target)]
    to: Target,
    /// Reason, kept in the audit
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    hand: Hand,
}

/// Where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Committed,
    Start,
    End,
    Offset(i64),
}

fn target(text: &str) -> Result<Target, String> {
    match (text, text.parse()) {
        ("committed", _) => Ok(Target::Committed),
        ("start", _) => Ok(Target::Start),
        ("end", _) => Ok(Target::End),
        (_, Ok(offset)) if offset >= 0 => Ok(Target::Offset(offset)),
        _ => Err("not an offset: give a number, `start`, `end` or `committed`".into()),
    }
}

/// What Kafka knows: the topic, and where the group stands, if that is asked for.
type Facts = (Option<TopicLogs>, Option<NextOffset>);

/// Raises a partition's watermark and lanes, by hand; or says where one begins that the database does not
/// know.
pub(super) async fn skip<DB: Operators>(
    config: &Config,
    skip: &Skip,
    env: &[(String, String)],
    terminal: &mut Terminal<'_>,
) -> Exit {
    if let Some(text) = without_log(&skip.topic) {
        terminal.complain(text);
        return Exit::Refused;
    }
    let typed = (skip.topic.as_str(), skip.why.as_str(), &skip.hand);
    let (signed, facts, mut conn) = match begun::<DB>(config, typed, env, terminal).await {
        Ok(begun) => begun,
        Err(exit) => return exit,
    };
    let committed = match committed(config, skip).await {
        Ok(committed) => committed,
        Err(error) => {
            DB::close_hard(conn).await;
            terminal.complain(error.to_string());
            return Exit::Kafka;
        }
    };
    let typed = (skip, (facts, committed), signed);
    let done = decide::<DB>(&mut conn, config, typed, terminal).await;
    DB::close_hard(conn).await;
    done.unwrap_or_else(|error| report_failure::<DB>(config, &error, terminal))
}

async fn committed(config: &Config, skip: &Skip) -> Result<Option<NextOffset>, BrokerError> {
    if skip.to != Target::Committed {
        return Ok(None);
    }
    let (topic, partition) = (skip.topic.as_str().into(), skip.partition);
    kafka_kit::internal::committed_of(kafka_settings(config), TopicPartition { topic, partition })
        .await
}

async fn decide<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    (skip, facts, (who, why)): (&Skip, Facts, Signed),
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let rows = DB::rows(conn, &config.consumer.name, &skip.topic).await?;
    let row = rows.into_iter().find(|row| row.partition == skip.partition && !row.retired);
    let Some(row) = row else {
        return begin::<DB>(conn, config, (skip, facts, (who, why)), terminal).await;
    };
    let (to, log) = match sound(skip, facts, &row) {
        Ok(sound) => sound,
        Err(text) => {
            terminal.complain(text);
            return Ok(Exit::Refused);
        }
    };
    if !skip.hand.yes {
        let meant = meant(&row, to, log);
        terminal.refuse(&format!("dry run: {meant}; nothing was changed: add --yes to apply"));
        return Ok(Exit::Refused);
    }
    let correction =
        Correction { partition_ref: row.partition_ref, who, why, force: skip.hand.force };
    let mut tries = 0;
    let done = loop {
        match DB::skip(conn, &correction, to).await {
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            done => break done?,
        }
    };
    Ok(told(&done, skip, (&row, to), terminal))
}

/// Writes down where a partition begins that the database does not know.
async fn begin<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    (skip, facts, (who, why)): (&Skip, Facts, Signed),
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let place = format!("{}/{}", skip.topic, skip.partition);
    let partitions = facts.0.as_ref().map_or(0, |topic| topic.logs.len());
    let aimed = aim(skip, facts).and_then(|aimed| {
        let reader = config.reader().map_err(|error| error.to_string())?;
        let placement = Placement::of(reader.of_topic(&skip.topic).rules());
        Ok((aimed, placement.lane_rule().to_owned()))
    });
    let ((topic_id, to, log), lane_rule) = match aimed {
        Ok(aimed) => aimed,
        Err(text) => {
            terminal.complain(text);
            return Ok(Exit::Refused);
        }
    };
    if !skip.hand.yes {
        terminal.refuse(&format!(
            "dry run: consumer {} has no row for {place}: it would start at {}, and {} that the \
             log still has below would count as handled; nothing was changed: add --yes to apply",
            config.consumer.name,
            to.0,
            counted((to.0 - log.start.0).max(0), "offset")
        ));
        return Ok(Exit::Refused);
    }
    let beginning = Beginning {
        consumer: config.consumer.name.clone(),
        partition: TopicPartition { topic: skip.topic.as_str().into(), partition: skip.partition },
        topic_id,
        partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
        lane_count: config.lanes.count,
        lane_rule,
        id_scope: config.events.id_scope,
        at: to,
        who,
        why,
    };
    let mut tries = 0;
    let done = loop {
        match DB::begin_partition(conn, &beginning).await {
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            done => break done?,
        }
    };
    if done == Corrected::Done {
        terminal.say(format!(
            "{place} starts at {}; a consumer stalled by `history_lost` resumes within seconds",
            to.0
        ));
        return Ok(Exit::Done);
    }
    terminal.complain(format!(
        "{place} has a row by now, so another process is working on it; check `status`, then run \
         the command again"
    ));
    Ok(Exit::Refused)
}

/// The offset within the log that is meant, and the topic's id.
fn aim(skip: &Skip, (facts, committed): Facts) -> Result<([u8; 16], NextOffset, LogRange), String> {
    let Skip { topic, partition, .. } = skip;
    let Some(facts) = facts else {
        return Err(format!(
            "topic {topic} does not exist in Kafka; if it was deleted for good, drop its state \
             with `retire`"
        ));
    };
    let log = facts.logs.iter().find(|(number, _)| number == partition).map(|(_, log)| *log);
    let log = log.ok_or_else(|| format!("topic {topic} has no partition {partition}"))?;
    let place = format!("{topic}/{partition}");
    let to = match skip.to {
        Target::Committed => committed.ok_or_else(|| {
            format!("the group has no committed offset for {place}: give an offset")
        })?,
        Target::Start => log.start,
        Target::End => log.end,
        Target::Offset(offset) => NextOffset(offset),
    };
    if to > log.end {
        return Err(format!(
            "the log of {place} ends at {}: {} is beyond it, and future records would be lost",
            log.end.0, to.0
        ));
    }
    if to < log.start {
        return Err(format!(
            "the log of {place} begins at {}: no record below it can be read; skip to {} or beyond",
            log.start.0, log.start.0
        ));
    }
    Ok((facts.id, to, log))
}

/// Whether the skip makes sense: the row, the offset, and the log. To where the partition stands goes only
/// what stands still: it says that the log is looked at and right.
fn sound(
    skip: &Skip,
    facts: Facts,
    row: &PartitionRecord,
) -> Result<(NextOffset, LogRange), String> {
    let (topic, place) = (&skip.topic, format!("{}/{}", skip.topic, skip.partition));
    let (id, to, log) = aim(skip, facts)?;
    if [id, row.topic_id].iter().all(|id| *id != [0; 16]) && id != row.topic_id {
        return Err(format!(
            "topic {topic} was deleted and re-created: its offsets now identify other records; \
             drop the old state with `retire`"
        ));
    }
    let forward = to.0 > row.watermark;
    if !forward && (to.0 < row.watermark || row.standstill.is_none()) {
        return Err(format!(
            "everything of {place} below {} is already settled, and a skip only goes forward: {} \
             is not beyond it",
            row.watermark, to.0
        ));
    }
    Ok((to, log))
}

/// What a skip gives up.
fn meant(row: &PartitionRecord, to: NextOffset, log: LogRange) -> String {
    let (from, last) = (row.watermark, to.last().0);
    let gone = (log.start.0.min(to.0) - from).max(0);
    let there = to.0 - from - gone;
    let ahead = if row.reached > from {
        format!(
            " (some below {} are already settled ahead of the watermark, and stay so)",
            row.reached
        )
    } else {
        String::new()
    };
    format!(
        "this would give up offsets {from} to {last}: {} that the log has lost, and {} that it \
         still has{ahead}",
        counted(gone, "offset"),
        counted(there, "offset")
    )
}

fn told(
    done: &Corrected,
    skip: &Skip,
    (row, to): (&PartitionRecord, NextOffset),
    terminal: &mut Terminal<'_>,
) -> Exit {
    let place = format!("{}/{}", skip.topic, skip.partition);
    match done {
        Corrected::Done => {
            terminal.say(format!(
                "{place} continues at {}; unsettled events below it are given up. A stalled \
                 consumer resumes within seconds; one that is stalled by `lane_rule` or \
                 `start_undecided` must be restarted",
                to.0
            ));
            Exit::Done
        }
        Corrected::Owned { owner, seen_seconds } => {
            terminal.complain(owned(&place, owner, *seen_seconds));
            Exit::Refused
        }
        Corrected::Changed | Corrected::Parked(_) => {
            terminal.complain(format!(
                "{place} has moved from {}, so another process is working on it; check `status`, \
                 then run the command again",
                row.watermark
            ));
            Exit::Refused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(to: Target) -> Skip {
        let hand = Hand { name: None, yes: false, force: false };
        Skip { topic: "orders".into(), partition: 1, to, why: "x".into(), hand }
    }

    fn facts(start: i64, end: i64) -> TopicLogs {
        let log = LogRange { start: NextOffset(start), end: NextOffset(end) };
        TopicLogs { id: [7; 16], logs: vec![(1, log)] }
    }

    fn row(watermark: i64) -> PartitionRecord {
        PartitionRecord {
            partition_ref: 1,
            topic_id: [7; 16],
            partition: 1,
            watermark,
            reached: watermark,
            owner: None,
            owner_seen_seconds: None,
            standstill: None,
            parked: 0,
            retired: false,
        }
    }

    #[test]
    fn a_skip_goes_forward_within_the_log_of_the_same_topic() {
        let at = |to, facts: TopicLogs, row: PartitionRecord| {
            sound(&typed(to), (Some(facts), None), &row)
        };
        let (to, log) = at(Target::Start, facts(15, 30), row(10)).unwrap();
        assert_eq!(to.0, 15);
        assert_eq!(
            meant(&row(10), to, log),
            "this would give up offsets 10 to 14: 5 offsets that the log has lost, and 0 offsets that it \
             still has"
        );
        assert_eq!(at(Target::End, facts(15, 30), row(10)).unwrap().0.0, 30);
        let says = |answer: Result<_, String>, part: &str| {
            let text = answer.expect_err(part);
            assert!(text.contains(part), "{text}");
        };
        says(sound(&typed(Target::Start), (None, None), &row(10)), "`retire`");
        says(at(Target::Offset(10), facts(0, 30), row(10)), "only goes forward");
        says(at(Target::Offset(31), facts(0, 30), row(10)), "ends at 30");
        says(at(Target::Offset(14), facts(15, 30), row(10)), "begins at 15");
        let other = PartitionRecord { topic_id: [8; 16], ..row(10) };
        says(at(Target::Start, facts(15, 30), other), "re-created");
        let unknown = PartitionRecord { topic_id: [0; 16], ..row(10) };
        at(Target::Start, facts(15, 30), unknown).unwrap();
        let still = PartitionRecord { standstill: Some("log_ended_below: x".into()), ..row(10) };
        assert_eq!(at(Target::Offset(10), facts(0, 30), still.clone()).unwrap().0.0, 10);
        says(at(Target::Offset(9), facts(0, 30), still), "only goes forward");
    }

    #[test]
    fn a_beginning_is_in_the_log() {
        let at = |to, committed: Option<i64>| {
            aim(&typed(to), (Some(facts(15, 30)), committed.map(NextOffset)))
        };
        let offset = |to, committed| at(to, committed).unwrap().1.0;
        assert_eq!(offset(Target::Committed, Some(20)), 20);
        assert_eq!(offset(Target::Start, Some(20)), 15);
        assert_eq!(offset(Target::End, None), 30);
        assert_eq!(offset(Target::Offset(17), None), 17);
        assert!(
            at(Target::Committed, None).is_err_and(|text| text.contains("no committed offset"))
        );
        assert!(at(Target::Committed, Some(9)).is_err_and(|text| text.contains("begins at 15")));
    }

    #[test]
    fn an_offset_is_a_number_or_an_end_of_the_log() {
        assert_eq!(target("7"), Ok(Target::Offset(7)));
        assert_eq!(target("end"), Ok(Target::End));
        for wrong in ["-1", "", "beginning", "7.5"] {
            assert!(target(wrong).is_err_and(|text| text.contains("`start`")), "{wrong}");
        }
    }
}
