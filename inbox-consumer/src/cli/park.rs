//! `park`: one event that is not settled yet is parked instead of run.

use clap::Args;
use inbox_engine::internal::Offset;
use inbox_store::internal::port::{Corrected, Correction, Operators};
use kafka_kit::internal::TopicLogs;

use super::{
    Exit, Terminal,
    correcting::{signed, without_log},
    session::{again, open_current, report_failure},
};
use crate::{config::Config, consumer::kafka_settings};

/// What the user typed behind `park`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(super) struct Park {
    /// The topic
    #[arg(long)]
    topic: String,
    /// The partition
    #[arg(long, value_name = "NUMBER")]
    partition: i32,
    /// The event's offset
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    /// Reason, kept in the audit
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Your name for the audit; USER@HOST by default, or HOST where the user has no name
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// Has an event parked when it is its turn; it can be released afterwards.
pub(super) async fn park<DB: Operators>(
    config: &Config,
    park: &Park,
    env: &[(String, String)],
    terminal: &mut Terminal<'_>,
) -> Exit {
    let signed = match signed(park.name.as_deref(), &park.why, env) {
        Ok(signed) => signed,
        Err(text) => {
            terminal.complain(text);
            return Exit::Usage;
        }
    };
    if let Some(text) = without_log(&park.topic) {
        terminal.complain(text);
        return Exit::Refused;
    }
    let logs = match kafka_kit::internal::topic(kafka_settings(config), park.topic.clone()).await {
        Ok(logs) => logs,
        Err(error) => {
            terminal.complain(error.to_string());
            return Exit::Kafka;
        }
    };
    let mut conn = match open_current::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let done = decide::<DB>(&mut conn, config, (park, logs), signed).await;
    DB::close_hard(conn).await;
    match done {
        Ok(Ok(text)) => {
            terminal.say(text);
            Exit::Done
        }
        Ok(Err(text)) => {
            terminal.complain(text);
            Exit::Refused
        }
        Err(error) => report_failure::<DB>(config, &error, terminal),
    }
}

async fn decide<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
    (park, logs): (&Park, Option<TopicLogs>),
    (who, why): (String, String),
) -> Result<Result<String, String>, sqlx::Error> {
    let Park { topic, partition, offset, .. } = park;
    let (consumer, place) = (&config.consumer.name, format!("{topic}/{partition}"));
    let rows = DB::rows(conn, consumer, topic).await?;
    let Some(row) = rows.into_iter().find(|row| row.partition == *partition && !row.retired) else {
        return Ok(Err(format!(
            "consumer {consumer:?} has no partition {place}: nothing was changed; `status` lists \
             its partitions"
        )));
    };
    // A slip of the finger is not to wait for whatever is written there one day.
    let logs = logs.map(|topic| topic.logs).unwrap_or_default();
    let log = logs.into_iter().find(|(number, _)| number == partition);
    if let Some((_, log)) = log.filter(|(_, log)| log.end.0 <= *offset) {
        return Ok(Err(format!(
            "the log of {place} ends at {}: there is no event at offset {offset} yet; nothing was \
             changed",
            log.end.0
        )));
    }
    let correction = Correction { partition_ref: row.partition_ref, who, why, force: true };
    let mut tries = 0;
    let done = loop {
        match DB::doom(conn, &correction, Offset(*offset)).await {
            Err(error) if again::<DB>(&error, &mut tries).await => {}
            done => break done?,
        }
    };
    Ok(match done {
        Corrected::Done => Ok(format!(
            "the event at offset {offset} of {place} will be parked instead of run when it is \
             next, unless it is settled already; its owner acquires the partition again for this; \
             `parked list` shows the event then"
        )),
        _ => Err(format!(
            "the event at offset {offset} of {place} is settled, as is everything below {}; \
             nothing was changed",
            row.watermark
        )),
    })
}
