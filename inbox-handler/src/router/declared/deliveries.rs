//! Deliveries and runs for the tests of declared handlers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use inbox_engine::internal::Offset;
use inbox_store::internal::port::Transactions;
use outbox_core::{Aggregate, Envelope, EventId, Header, Record, TopicPartition};

use super::{
    super::{DecodedRun, RouteTable, Routes, RunEnd, RunEvent},
    Declared, DeclaredMode,
};
use crate::{Delivery, Tx};

/// A handler for the type `t`.
pub(super) fn declared(mode: DeclaredMode, columns: &[(&str, &str)], sql: &str) -> Declared {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    Declared {
        event_type: "t".into(),
        mode,
        one_per_aggregate: None,
        versions: None,
        columns: columns.iter().map(owned).collect(),
        sql: sql.into(),
    }
}

pub(super) fn table<DB: Transactions>(handler: Declared) -> RouteTable<DB> {
    Routes::default().declare(&[handler], None).freeze().unwrap()
}

/// An event of the aggregate `Account/A` with a header, a key and a time.
pub(super) fn delivery(aggregate: &str, payload: Option<&str>) -> Arc<Delivery> {
    let payload = payload.map(|text| Bytes::copy_from_slice(text.as_bytes()));
    let event = Envelope {
        event_id: EventId::new(),
        source_id: None,
        event_type: "t".into(),
        aggregate: Aggregate::new("Account", aggregate).unwrap(),
        aggregate_version: None,
        occurred_at_ms: Some(1_769_848_200_250),
        schema_version: None,
        payload: payload.clone(),
    };
    let header = Header { name: "tenant".into(), value: Some(Bytes::from_static(b"north")) };
    let key = Some(Bytes::from_static(b"k-1"));
    Arc::new(Delivery {
        read_as: outbox_core::internal::ReadAs::default(),
        partition: TopicPartition { topic: "topic".into(), partition: 0 },
        offset: Offset(0),
        record: Record { key, headers: vec![header], payload, timestamp_ms: None },
        excerpt: None,
        event: Ok(event),
    })
}

/// Runs the only route of a table on events with these payloads.
pub(super) async fn run<DB: Transactions>(
    table: &RouteTable<DB>,
    conn: &mut DB::Connection,
    payloads: &[&str],
) -> RunEnd {
    let deliveries: Vec<_> = payloads.iter().map(|text| delivery("a", Some(text))).collect();
    let run: Vec<_> = deliveries.iter().map(|delivery| RunEvent { delivery, attempt: 1 }).collect();
    table.run(0, &run, DecodedRun::none(), &mut Tx::new(conn, 0), Duration::from_secs(20)).await
}
