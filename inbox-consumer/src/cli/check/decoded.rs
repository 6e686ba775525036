//! What handlers make of the payloads of samples.

use std::sync::Arc;

use inbox_engine::internal::Offset;
use inbox_handler::internal::{Delivery, PayloadCodec, RouteLookup, RouteTable, RunEvent};
use inbox_store::internal::port::Sessions;
use kafka_kit::internal::TopicFacts;
use outbox_core::{Payload, Reader, Record, TopicPartition};

use super::sample::{Sample, fate};
use crate::config::Config;

/// Shows with each sample why its handler cannot take it, and its payload as JSON where a schema describes it.
pub(super) async fn decode<DB: Sessions>(
    samples: &mut [Sample],
    facts: &[TopicFacts],
    (reader, routes): (&Reader, &RouteTable<DB>),
    codec: Option<&PayloadCodec>,
    config: &Config,
) {
    for sample in samples {
        let of_topic = facts.iter().find(|facts| facts.topic == sample.topic);
        let record = of_topic.and_then(|facts| {
            let is = |(partition, offset, _): &&(i32, i64, Record)| {
                (*partition, *offset) == (sample.partition, sample.offset)
            };
            facts.sample.iter().find(is).map(|(_, _, record)| record)
        });
        let Some(delivery) = record.and_then(|record| delivery(sample, record, reader)) else {
            continue;
        };
        let Ok(event) = &delivery.event else { continue };
        let RouteLookup::Route(kind) = routes.lookup(&event.event_type) else { continue };
        let policy = routes.versions(kind.route);
        let rejected = policy.and_then(|policy| policy.refusal(event.aggregate_version));
        let refusal =
            routes.refusal(kind.route, &RunEvent { delivery: &delivery, attempt: 1 }).await;
        let why_not = match (rejected, refusal) {
            (Some(error), _) => Some(format!("parked as `rejected`: {error}")),
            (None, Some(error)) => {
                Some(format!("{}: {error}", fate(config.events.undecodable, "undecodable")))
            }
            (None, None) => None,
        };
        if why_not.is_some() {
            (sample.handler, sample.why_not) = (None, why_not);
        } else if let Some(codec) = codec {
            let headers = &delivery.as_read().headers;
            let payload = Payload::of(event, headers, &sample.topic)
                .with_text_in_schema(delivery.read_as.is_text_in_schema);
            // Nobody minds what it is, where its handler takes it without looking.
            if let Some(preparation) = codec.prepare(&payload) {
                let _ = preparation.await;
            }
            let json = payload.content().and_then(|_| codec.decode(&payload).ok());
            sample.payload = json.map(|json| json.get().to_owned());
        }
    }
}

/// The event of a sample as its handler would be given it; nothing of what no handler takes.
fn delivery(sample: &Sample, record: &Record, reader: &Reader) -> Option<Arc<Delivery>> {
    sample.handler?;
    let record = reader.unfold(&sample.topic, record).unwrap_or_else(|| record.clone());
    let read = reader.read_as(&sample.topic, sample.partition, sample.offset, &record);
    let (event, read_as) = read.ok()?;
    let topic = sample.topic.as_str().into();
    Some(Arc::new(Delivery {
        partition: TopicPartition { topic, partition: sample.partition },
        offset: Offset(sample.offset),
        record,
        excerpt: None,
        event: Ok(event),
        read_as,
    }))
}
