//! One record read once more, by a client that joins no group.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::Offset;
use outbox_core::TopicPartition;
use rdkafka::{
    config::FromClientConfigAndContext as _,
    consumer::{BaseConsumer, Consumer as _},
    types::RDKafkaErrorCode,
};

use crate::{
    broker::{Arrival, BrokerError},
    client::{Callbacks, list, partition_label},
    event::EventKind,
    ffi::Queue,
    gather::Gather,
    properties::refusal,
    settings::KafkaSettings,
};

/// How long it may take until the record is there.
const TIME_MAX: Duration = Duration::from_secs(30);
const POLL_WAIT: Duration = Duration::from_millis(100);

/// `None`: the log does not have it.
pub(crate) fn read(
    settings: &KafkaSettings,
    topic_partition: &TopicPartition,
    offset: Offset,
) -> Result<Option<Arrival>, BrokerError> {
    let config = settings.client_config()?;
    let client = BaseConsumer::from_config_and_context(&config, Callbacks::default())
        .map(Arc::new)
        .map_err(|error| refusal(&error))?;
    let failed = |why: String| {
        BrokerError(format!("reading {} failed: {why}", partition_label(topic_partition)))
    };
    let at = list([topic_partition], rdkafka::Offset::Offset(offset.0))?;
    client.assign(&at).map_err(|error| failed(error.to_string()))?;
    drop(at);
    let queue = Queue::of(&client).ok_or_else(|| failed("the client has no queue".into()))?;
    let mut gather = Gather::new(settings.excerpts.clone());
    let (until, mut why) = (Instant::now() + TIME_MAX, None);
    while Instant::now() < until {
        let Some(event) = queue.poll(POLL_WAIT) else { continue };
        match event.kind() {
            EventKind::Record => {
                // What is there instead is behind it: it was compacted away.
                let found = event.record().filter(|record| record.error().is_none());
                let found = found.map(|record| gather.arrival(&record));
                return Ok(found.filter(|arrival| arrival.offset == offset));
            }
            EventKind::Error => match event.code() {
                RDKafkaErrorCode::PartitionEOF
                | RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange => return Ok(None),
                _ => why = Some(event.text()),
            },
            _ => {}
        }
    }
    Err(failed(why.unwrap_or_else(|| format!("no record within {TIME_MAX:?}"))))
}
