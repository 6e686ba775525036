//! The relay: records with the time of their events, where Debezium's format asks for it. Kafka refuses and deletes by it.

use outbox_relay::config::RecordFormat;
use tests::{Outbox, Services, Topic};

use super::commands::ran;
use crate::programs::RELAY;

/// An outbox whose records have the time of their events, and its topic these settings.
async fn timed(settings: &[(&str, &str)]) -> Outbox {
    let services = Services::from_env();
    let topic = Topic::create(&services.kafka, "timed", 1, settings).await;
    let mut outbox = Outbox::with(topic, services.schema().await).await;
    outbox.config.kafka.format = RecordFormat::DebeziumOutbox;
    let debezium = &mut outbox.config.debezium;
    outbox.topic.name().clone_into(&mut debezium.route_topic_replacement);
    debezium.table_field_event_timestamp = Some("occurred_at_ms".into());
    outbox
}

/// What `check` says of topics.
async fn checked(outbox: &Outbox) -> String {
    let mut command = outbox.command(&RELAY);
    command
        .env("OUTBOX_KAFKA__FORMAT", "debezium-outbox")
        .env("OUTBOX_DEBEZIUM__TABLE_FIELD_EVENT_TIMESTAMP", "occurred_at_ms")
        .env("OUTBOX_DEBEZIUM__ROUTE_TOPIC_REPLACEMENT", outbox.topic.name());
    let (code, out, err) = ran(command, "check").await;
    assert_eq!(code, Some(0), "{err}");
    out
}

#[tokio::test]
async fn check_says_that_a_topic_deletes_records_by_the_time_of_their_events() {
    let outbox = timed(&[("retention.ms", "172800000")]).await;
    let said = checked(&outbox).await;
    let told = format!("and {} deletes them by it, 2d after", outbox.topic.name());
    assert!(
        said.contains(&told) && said.contains("`debezium.table_field_event_timestamp`"),
        "{said}"
    );
    for settings in [
        &[("message.timestamp.type", "LogAppendTime")][..],
        &[("retention.ms", "-1")],
        &[("cleanup.policy", "compact")],
    ] {
        let said = checked(&timed(settings).await).await;
        assert!(!said.contains("deletes them by it"), "{settings:?}: {said}");
    }
}

#[tokio::test]
async fn a_record_of_the_future_names_the_column_that_says_so() {
    let outbox = timed(&[("message.timestamp.after.max.ms", "3600000")]).await;
    outbox.append("a", 1, 1).await;
    let ahead = "UPDATE outbox_events SET occurred_at_ms = (extract(epoch FROM now()) * 1000)::bigint + 10800000";
    outbox.schema.run(ahead).await;
    let running = outbox.start().await;
    let failed = "state = 'parked' AND error LIKE '%from the column that \
                  `debezium.table\\_field\\_event\\_timestamp` names%'";
    outbox.has_parked(failed, 1).await;
    running.stop().await;
}
