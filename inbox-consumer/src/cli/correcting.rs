//! What `skip` and `retire` have in common: a person changes a partition's rows.

use inbox_store::internal::port::Operators;
use kafka_kit::internal::{BrokerError, TopicLogs};

use super::{
    Exit, Terminal,
    hand::{Hand, who},
    session::open_current,
};
use crate::{
    config::Config,
    consumer::{INTAKE_TOPIC, kafka_settings},
};

/// Who acts, and why.
pub(super) type Signed = (String, String);

/// What a correction begins with: who acts and why, the topic as Kafka has it, and a session; or the exit
/// after a complaint.
pub(super) async fn begun<DB: Operators>(
    config: &Config,
    (topic, why, hand): (&str, &str, &Hand),
    env: &[(String, String)],
    terminal: &mut Terminal<'_>,
) -> Result<(Signed, Option<TopicLogs>, DB::Connection), Exit> {
    let signed = signed(hand.name.as_deref(), why, env).map_err(|text| {
        terminal.complain(text);
        Exit::Usage
    })?;
    let facts = logs(config, topic).await.map_err(|error| {
        terminal.complain(error.to_string());
        Exit::Kafka
    })?;
    Ok((signed, facts, open_current::<DB>(config, terminal).await?))
}

/// The topic as Kafka has it. The intake is none of Kafka's, which need not be there.
async fn logs(config: &Config, topic: &str) -> Result<Option<TopicLogs>, BrokerError> {
    if topic == INTAKE_TOPIC {
        return Ok(None);
    }
    kafka_kit::internal::topic(kafka_settings(config), topic.to_owned()).await
}

/// Why nothing of a topic can be skipped, or be parked by its offset, if it is the intake's.
pub(super) fn without_log(topic: &str) -> Option<String> {
    (topic == INTAKE_TOPIC).then(|| {
        format!(
            "{INTAKE_TOPIC} stands for events by HTTP, which have no log: each is settled by the \
             answer to its request, so nothing waits at an offset; nothing was changed"
        )
    })
}

/// Who acts, and why; or what is missing.
pub(super) fn signed(
    name: Option<&str>,
    why: &str,
    env: &[(String, String)],
) -> Result<Signed, String> {
    let why = why.trim();
    if why.is_empty() {
        return Err("--why is empty: give a reason, the audit keeps it".into());
    }
    Ok((who(name, env)?, why.to_owned()))
}

/// Why a live owner stops a correction.
pub(super) fn owned(place: &str, owner: &str, seen_seconds: f64) -> String {
    format!(
        "{owner} owns {place} and was active {seen_seconds:.0} s ago; nothing was changed. Stop \
         it first, or fence it with --force: its open transactions roll back, and it acquires the \
         partition again"
    )
}
