//! What the payloads of samples are by their schemas.

use inbox_handler::internal::PayloadCodec;
use inbox_kafka::internal::TopicFacts;
use outbox_core::{CodecError, Payload, Reader, Record};
use serde_json::value::RawValue;

use super::sample::Sample;

/// Shows with each sample its payload as JSON, or why it cannot be read.
pub(super) async fn decode(
    samples: &mut [Sample],
    facts: &[TopicFacts],
    reader: &Reader,
    codec: &PayloadCodec,
) {
    for sample in samples {
        let of_topic = facts.iter().find(|facts| facts.topic == sample.topic);
        let record = of_topic.and_then(|facts| {
            let is = |(partition, offset, _): &&(i32, i64, Record)| {
                (*partition, *offset) == (sample.partition, sample.offset)
            };
            facts.sample.iter().find(is).map(|(_, _, record)| record)
        });
        let Some(record) = record else { continue };
        match one(sample, record, reader, codec).await {
            None => {}
            Some(Ok(json)) => sample.payload = Some(json.get().to_owned()),
            Some(Err(error)) => {
                sample.handler = None;
                sample.why_not = Some(error.to_string());
            }
        }
    }
}

/// Nothing of what no handler takes, and of tombstones.
async fn one(
    sample: &Sample,
    record: &Record,
    reader: &Reader,
    codec: &PayloadCodec,
) -> Option<Result<Box<RawValue>, CodecError>> {
    sample.handler?;
    let unfolded = reader.unfold(&sample.topic, record);
    let record = unfolded.as_ref().unwrap_or(record);
    let event = reader.read(&sample.topic, sample.partition, sample.offset, record).ok()?;
    let payload = Payload::of(&event, &record.headers, &sample.topic);
    payload.content()?;
    if let Some(preparation) = codec.prepare(&payload)
        && let Err(error) = preparation.await
    {
        return Some(Err(error));
    }
    Some(codec.decode(&payload))
}
