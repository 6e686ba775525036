//! `retire`: the rows of a topic that is gone are given up.

use clap::Args;
use inbox_store::internal::port::{Corrected, Correction, Operators, PartitionRecord};
use kafka_kit::internal::TopicLogs;

use super::{
    Exit, Terminal,
    correcting::{Signed, begun, owned},
    hand::Hand,
    session::{again, report_failure},
    words::counted,
};
use crate::{config::Config, consumer::INTAKE_TOPIC};

/// Parked events that one transaction removes.
const CHUNK: u32 = 1_000;

/// What the user typed behind `retire`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(super) struct Retire {
    /// The topic
    #[arg(long)]
    topic: String,
    /// Only this partition
    #[arg(long, value_name = "NUMBER")]
    partition: Option<i32>,
    /// Discard the events parked there: nobody can release them any more
    #[arg(long)]
    discard_parked: bool,
    /// Reason, kept in the audit
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    hand: Hand,
}

/// Retires what is of an earlier topic of that name, or of one that is gone.
pub(super) async fn retire<DB: Operators>(
    config: &Config,
    retire: &Retire,
    env: &[(String, String)],
    terminal: &mut Terminal<'_>,
) -> Exit {
    let typed = (retire.topic.as_str(), retire.why.as_str(), &retire.hand);
    let (signed, facts, mut conn) = match begun::<DB>(config, typed, env, terminal).await {
        Ok(begun) => begun,
        Err(exit) => return exit,
    };
    let done = decide::<DB>(&mut conn, config, (retire, facts, signed), terminal).await;
    DB::close_hard(conn).await;
    done.unwrap_or_else(|error| report_failure::<DB>(config, &error, terminal))
}

async fn decide<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    (retire, facts, signed): (&Retire, Option<TopicLogs>, Signed),
    terminal: &mut Terminal<'_>,
) -> Result<Exit, sqlx::Error> {
    let rows = DB::rows(conn, &config.consumer.name, &retire.topic).await?;
    let consumed = config.kafka.topics.contains(&retire.topic);
    let stale = match stale(retire, rows, facts.map(|facts| facts.id), consumed) {
        Ok(stale) => stale,
        Err(text) => {
            terminal.complain(text);
            return Ok(Exit::Refused);
        }
    };
    let parked: i64 = stale.iter().map(|row| row.parked).sum();
    if let Some(text) = unsure(retire, &stale, parked) {
        terminal.complain(text);
        return Ok(Exit::Refused);
    }
    let mut retired = 0;
    for row in &stale {
        let (who, why) = signed.clone();
        let correction =
            Correction { partition_ref: row.partition_ref, who, why, force: retire.hand.force };
        if let Some(text) = one::<DB>(conn, retire, row, &correction).await? {
            terminal.complain(text);
            return Ok(Exit::Refused);
        }
        retired += 1;
    }
    let then = if retire.topic == INTAKE_TOPIC {
        "the next event by HTTP creates it again, and duplicates of earlier events are still \
         detected"
    } else {
        "a topic of that name is read from its beginning"
    };
    terminal.say(format!(
        "retired {} of topic {}, and discarded {}; {then}",
        counted(retired, "partition"),
        retire.topic,
        counted(parked, "parked event")
    ));
    Ok(Exit::Done)
}

/// What is to be retired: rows of an earlier topic of that name, or of one that is gone, or that this
/// consumer does not read any more. Rows that are retired already count while events are parked there.
fn stale(
    retire: &Retire,
    rows: Vec<PartitionRecord>,
    id: Option<[u8; 16]>,
    consumed: bool,
) -> Result<Vec<PartitionRecord>, String> {
    let topic = &retire.topic;
    let asked =
        |row: &PartitionRecord| retire.partition.is_none_or(|partition| partition == row.partition);
    let rows: Vec<PartitionRecord> = rows.into_iter().filter(asked).collect();
    if rows.is_empty() {
        return Err(format!("this consumer has no rows of topic {topic} that match"));
    }
    let unknown = |id: [u8; 16]| id == [0; 16];
    let open = rows.into_iter().filter(|row| !row.retired || row.parked > 0);
    let (mut stale, mut doubtful) = (Vec::new(), false);
    for row in open {
        match id {
            None => stale.push(row),
            Some(_) if !consumed || retire.hand.force || row.retired => stale.push(row),
            Some(id) if unknown(id) || unknown(row.topic_id) => doubtful = true,
            Some(id) if id != row.topic_id => stale.push(row),
            Some(_) => {}
        }
    }
    if !stale.is_empty() {
        return Ok(stale);
    }
    if doubtful {
        return Err(format!(
            "cannot tell whether the rows belong to the current topic {topic}, because the \
             topic's id is unknown; if you know that it was re-created, retire them with --force"
        ));
    }
    Err(format!(
        "the rows belong to the current topic {topic}, and `kafka.topics` names it: nothing to \
         retire"
    ))
}

/// What has to be said before anything is changed.
fn unsure(retire: &Retire, stale: &[PartitionRecord], parked: i64) -> Option<String> {
    let topic = &retire.topic;
    if parked > 0 && !retire.discard_parked {
        return Some(format!(
            "parked there: {} of topic {topic}. No process will own the partition again, so they \
             can never be released. Save what you need of them (`parked list --topic {topic} \
             --followers --json`, `parked show SEQ --json`), then add --discard-parked",
            counted(parked, "event")
        ));
    }
    if retire.hand.yes {
        return None;
    }
    let ahead = stale.iter().map(|row| format!("{} at {}", row.partition, row.watermark));
    Some(format!(
        "dry run: this would retire {} of topic {topic} (settled: {}) and discard {}; nothing was \
         changed: add --yes to apply",
        counted(i64::try_from(stale.len()).unwrap_or(i64::MAX), "partition"),
        ahead.collect::<Vec<_>>().join(", "),
        counted(parked, "parked event")
    ))
}

/// Retires one partition's rows; or says why not.
async fn one<DB: Operators>(
    conn: &mut DB::Connection,
    retire: &Retire,
    row: &PartitionRecord,
    correction: &Correction,
) -> Result<Option<String>, sqlx::Error> {
    let place = format!("{}/{}", retire.topic, row.partition);
    let mut tries = 0;
    let done = loop {
        match DB::retire(conn, correction, retire.discard_parked).await {
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            done => break done?,
        }
    };
    match done {
        Corrected::Done => {}
        Corrected::Owned { owner, seen_seconds } => {
            return Ok(Some(owned(&place, &owner, seen_seconds)));
        }
        Corrected::Changed => return Ok(Some(format!("the row of {place} no longer exists"))),
        Corrected::Parked(_) => {
            return Ok(Some(format!(
                "an event of {place} was parked concurrently; run the command again"
            )));
        }
    }
    if retire.discard_parked {
        discard::<DB>(conn, correction).await?;
    }
    Ok(None)
}

async fn discard<DB: Operators>(
    conn: &mut DB::Connection,
    correction: &Correction,
) -> Result<(), sqlx::Error> {
    let mut tries = 0;
    loop {
        match DB::discard_parked(conn, correction, CHUNK).await {
            Ok(0) => return Ok(()),
            Ok(_) => tries = 0,
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(force: bool) -> Retire {
        Retire {
            topic: "orders".into(),
            partition: None,
            discard_parked: false,
            why: "x".into(),
            hand: Hand { name: None, yes: false, force },
        }
    }

    fn row(partition: i32, topic_id: [u8; 16], retired: bool) -> PartitionRecord {
        PartitionRecord {
            partition_ref: i64::from(partition),
            topic_id,
            partition,
            watermark: 5,
            reached: 5,
            owner: None,
            owner_seen_seconds: None,
            standstill: None,
            parked: 0,
            retired,
        }
    }

    fn partitions(stale: Result<Vec<PartitionRecord>, String>) -> Vec<i32> {
        stale.unwrap_or_default().iter().map(|row| row.partition).collect()
    }

    #[test]
    fn rows_of_an_earlier_topic_are_retired_and_no_others() {
        let (old, now, unknown) = ([1; 16], [2; 16], [0; 16]);
        let rows = || vec![row(0, old, false), row(1, now, false), row(2, old, true)];
        let typed_ = typed(false);
        assert_eq!(partitions(stale(&typed_, rows(), Some(now), true)), [0]);
        assert_eq!(partitions(stale(&typed_, rows(), None, true)), [0, 1]);
        assert_eq!(partitions(stale(&typed_, rows(), Some(now), false)), [0, 1]);
        let current = vec![row(1, now, false)];
        let text = stale(&typed_, current.clone(), Some(now), true).unwrap_err();
        assert!(text.contains("nothing to retire"), "{text}");
        let text = stale(&typed_, current.clone(), Some(unknown), true).unwrap_err();
        assert!(text.contains("--force"), "{text}");
        assert_eq!(partitions(stale(&typed(true), current, Some(unknown), true)), [1]);
        let leftover = PartitionRecord { parked: 3, ..row(2, old, true) };
        assert_eq!(partitions(stale(&typed_, vec![leftover], Some(now), true)), [2]);
        let text = stale(&typed_, Vec::new(), None, true).unwrap_err();
        assert!(text.contains("no rows of topic orders"), "{text}");
    }

    #[test]
    fn parked_events_are_given_up_only_when_that_is_said() {
        let text = unsure(&typed(false), &[row(0, [1; 16], false)], 2).unwrap();
        assert!(text.contains("2 events") && text.contains("--discard-parked"), "{text}");
        let text = unsure(&typed(false), &[row(0, [1; 16], false)], 0).unwrap();
        assert!(text.contains("settled: 0 at 5") && text.contains("--yes"), "{text}");
    }
}
