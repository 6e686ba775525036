//! What is read off a relay: metrics, readiness, liveness.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{meters::TurnState, *};
use crate::{
    deadline::Deadline,
    port::{DestinationOutage, Reading},
};

const MINUTE: Duration = Duration::from_mins(1);

fn relay() -> (Arc<Meters>, Readings) {
    let meters = Meters::new("shop".into(), ["shop".to_owned()]);
    let readings = Readings::of(&meters);
    (meters, readings)
}

/// A relay that runs, and has the turn.
fn active() -> (Arc<Meters>, Readings) {
    let (meters, readings) = relay();
    meters.tick();
    meters.has_turn(Deadline::new(Instant::now() + MINUTE));
    (meters, readings)
}

/// An outage of a destination that began so long ago.
fn outage(ago: Duration) -> DestinationOutage {
    let since = Instant::now().checked_sub(ago).unwrap();
    DestinationOutage { destination: "shop (http://shop)".into(), since, error: "refused".into() }
}

fn reasons(readings: &Readings) -> Vec<&'static str> {
    readings.readiness().reasons.iter().map(|unready| unready.reason).collect()
}

#[test]
fn a_relay_is_ready_when_it_has_the_turn_or_another_has() {
    let (meters, readings) = relay();
    assert_eq!(reasons(&readings), ["starting"]);
    assert!(readings.live(), "what has not begun is not to be started anew");
    meters.tick();
    assert_eq!(reasons(&readings), ["starting"], "nobody knows yet whose turn it is");
    meters.stands_by("host/7", MINUTE);
    let Readiness { ready, turn, sentence, .. } = readings.readiness();
    assert!(ready && turn == "others" && sentence.contains("host/7 is active"), "{sentence}");
    assert!(sentence.ends_with("this relay is on standby"), "{sentence}");
    meters.has_turn(Deadline::new(Instant::now() + MINUTE));
    assert_eq!((readings.readiness().ready, readings.readiness().turn), (true, "own"));
    meters.turn_is_over();
    assert_eq!(reasons(&readings), ["starting"]);
    meters.begin_shutdown();
    assert_eq!(reasons(&readings), ["ending"], "what is letting go takes no more work");
    meters.end();
    assert_eq!(reasons(&readings), ["ended"]);
}

#[test]
fn a_relay_that_is_switched_off_is_ready() {
    let (meters, readings) = relay();
    meters.switch_off();
    let Readiness { ready, sentence, .. } = readings.readiness();
    assert!(ready && readings.live());
    assert_eq!(sentence, "the relay is disabled: `relay.enabled` is false");
}

#[test]
fn what_is_out_for_long_keeps_a_relay_from_being_ready() {
    let (meters, readings) = active();
    meters.troubles.database_out("connection refused".into());
    meters.troubles.kafka_out("no broker".into());
    assert_eq!(reasons(&readings), [""; 0], "a moment is none");
    meters.troubles.age(Duration::from_secs(11));
    assert_eq!(reasons(&readings), ["database_outage", "kafka_outage"]);
    let sentence = readings.readiness().reasons[0].sentence.clone();
    assert!(sentence.contains("down for 11s") && sentence.ends_with("connection refused"));
    meters.stands_by("host/7", MINUTE);
    assert_eq!(reasons(&readings), ["database_outage"], "who stands by does not use Kafka");
    meters.troubles.database_works();
    assert_eq!(reasons(&readings), [""; 0]);
    assert!(readings.live(), "an outage is no reason to start anew");
}

#[test]
fn a_destination_that_is_down_for_long_keeps_a_relay_from_being_ready() {
    let (meters, readings) = active();
    let shop = &meters.destinations[0];
    shop.set_outages(vec![outage(Duration::from_secs(9))]);
    meters.stands_still(Some(("destination shop: refused", true)));
    assert_eq!(reasons(&readings), [""; 0], "a moment is none");
    shop.set_outages(vec![outage(Duration::from_secs(11))]);
    meters.age_standstill(Duration::from_secs(11));
    assert_eq!(reasons(&readings), ["destination_outage"], "once, though nothing else is shipped");
    let sentence = readings.readiness().reasons[0].sentence.clone();
    assert_eq!(
        sentence,
        "destination shop (http://shop) has been down for 11s; retrying automatically, nothing is lost: refused"
    );
    shop.set_outages(Vec::new());
    meters.stands_still(None);
    assert_eq!(reasons(&readings), [""; 0]);
    shop.set_outages(vec![outage(MINUTE)]);
    meters.turn_is_over();
    meters.stands_by("host/7", MINUTE);
    assert_eq!(reasons(&readings), [""; 0], "who stands by calls nobody");
}

#[test]
fn a_lost_broker_counts_until_one_answers() {
    let (meters, readings) = active();
    meters.troubles.brokers("refused".into());
    meters.troubles.age(Duration::from_secs(11));
    assert!(meters.troubles.brokers_are_doubtful());
    assert_eq!(reasons(&readings), ["kafka_outage"]);
    meters.troubles.brokers_answer();
    assert_eq!(reasons(&readings), [""; 0]);
    meters.troubles.unknown(3, "timed out".into());
    meters.troubles.age(Duration::from_secs(11));
    meters.troubles.brokers_answer();
    assert_eq!(reasons(&readings), ["kafka_outage"], "an answer is no batch");
    meters.troubles.kafka_works();
    assert_eq!(reasons(&readings), [""; 0]);
}

#[test]
fn a_standstill_has_its_name() {
    let (meters, readings) = active();
    meters.stands_still(Some(("sequence_behind: 4 comes next", false)));
    assert_eq!(reasons(&readings), ["sequence_behind"], "a person has to act");
    meters.stands_still(Some(("id_shared: end one", false)));
    assert_eq!(reasons(&readings), ["id_shared"]);
    assert!(
        readings.prometheus().contains("outbox_standstill{outbox=\"shop\",reason=\"id_shared\"} 1")
    );
    meters.stands_still(Some(("the look failed", true)));
    assert_eq!(reasons(&readings), [""; 0], "it may pass");
    meters.age_standstill(Duration::from_secs(11));
    meters.stands_still(Some(("the look failed again", true)));
    assert_eq!(reasons(&readings), ["outage"], "what goes on has begun when it began");
    meters.stands_still(None);
    assert_eq!(reasons(&readings), [""; 0]);
}

#[test]
fn a_lease_that_is_over_and_that_nobody_takes_is_told() {
    let (meters, readings) = relay();
    meters.tick();
    let over = Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
    meters.set_turn(TurnState::Others { holder: "host/7".into(), until: over });
    assert_eq!(reasons(&readings), ["lease_over"]);
}

#[test]
fn a_task_that_does_not_come_round_is_dead() {
    let (meters, readings) = active();
    assert!(readings.live());
    meters.age_tick(Duration::from_secs(21));
    assert!(!readings.live());
    assert_eq!(reasons(&readings), ["stuck"]);
    meters.tick();
    assert!(readings.live());
}

#[test]
fn metrics_say_what_was_measured() {
    let (meters, readings) = active();
    meters.counters.sent.add(7);
    meters.counters.batches.add(2);
    meters.counters.fenced.add(1);
    meters.troubles.database_out("refused".into());
    meters.delivered(7, Instant::now().checked_sub(Duration::from_secs(2)));
    meters.delivered(0, None);
    meters.kafka.note_answer(Duration::from_millis(3));
    let shop = &meters.destinations[0];
    shop.note_answer(Duration::from_millis(4));
    shop.note_delivery(1, Some(Duration::from_secs(3)));
    shop.set_outages(vec![outage(MINUTE)]);
    meters.publish_reading(Some(Reading { newest: Some(90), ..Reading::default() }));
    meters.publish_reading(Some(Reading {
        unsent: 20_000,
        oldest: Some(101),
        oldest_waits: Some(Duration::from_millis(1_500)),
        oldest_retry: Some(Duration::from_millis(1_250)),
        newest: Some(5_000_100),
        set_aside: 3,
        retrying: 5,
        delayed: 6,
        without_topic: 2,
        without_destination: 8,
        held: 4,
        table_bytes: Some(8_192),
        index_bytes: None,
        lease_left: Duration::from_secs(9),
    }));
    let text = readings.prometheus();
    for (name, value) in [
        ("outbox_unsent_rows{outbox=\"shop\"}", "20015"),
        ("outbox_unsent_span_rows{outbox=\"shop\"}", "5000000"),
        ("outbox_oldest_unsent_seconds{outbox=\"shop\"}", "1.5"),
        ("outbox_set_aside_rows{outbox=\"shop\"}", "3"),
        ("outbox_retrying_rows{outbox=\"shop\"}", "5"),
        ("outbox_oldest_retry_seconds{outbox=\"shop\"}", "1.25"),
        ("outbox_delayed_rows{outbox=\"shop\"}", "6"),
        ("outbox_without_topic_rows{outbox=\"shop\"}", "2"),
        ("outbox_without_destination_rows{outbox=\"shop\"}", "8"),
        ("outbox_held_rows{outbox=\"shop\"}", "4"),
        ("outbox_table_bytes{outbox=\"shop\"}", "8192"),
        ("outbox_turn_held{outbox=\"shop\"}", "1"),
        ("outbox_lease_left_seconds{outbox=\"shop\"}", "9"),
        ("outbox_ready{outbox=\"shop\"}", "0"),
        ("outbox_appended_rows_total{outbox=\"shop\"}", "5000010"),
        ("outbox_delivered_rows_total{outbox=\"shop\",destination=\"kafka\"}", "7"),
        ("outbox_delivered_rows_total{outbox=\"shop\",destination=\"shop\"}", "1"),
        ("outbox_delivery_seconds_count{outbox=\"shop\",destination=\"shop\"}", "1"),
        ("outbox_delay_seconds_sum{outbox=\"shop\",destination=\"shop\"}", "3"),
        ("outbox_batches_total{outbox=\"shop\"}", "2"),
        ("outbox_batch_rows_count{outbox=\"shop\"}", "1"),
        ("outbox_batch_rows_sum{outbox=\"shop\"}", "7"),
        ("outbox_delivery_seconds_count{outbox=\"shop\",destination=\"kafka\"}", "1"),
        ("outbox_delay_seconds_bucket{outbox=\"shop\",destination=\"kafka\",le=\"1\"}", "0"),
        ("outbox_delay_seconds_bucket{outbox=\"shop\",destination=\"kafka\",le=\"2.5\"}", "1"),
        ("outbox_errors_total{outbox=\"shop\",kind=\"database_outage\"}", "1"),
        ("outbox_errors_total{outbox=\"shop\",kind=\"fenced\"}", "1"),
        ("outbox_errors_total{outbox=\"shop\",kind=\"unknown\"}", "0"),
        ("outbox_outage_seconds{outbox=\"shop\",of=\"kafka\"}", "0"),
        ("outbox_readings_total{outbox=\"shop\",result=\"ok\"}", "2"),
    ] {
        assert!(text.contains(&format!("\n{name} {value}\n")), "{name} {value}: {text}");
    }
    let out = "\noutbox_destination_outage_seconds{outbox=\"shop\",destination=\"shop\"} 6";
    assert!(text.contains(out), "a minute and a little: {text}");
    assert!(!text.contains("outbox_index_bytes{"), "what is not known is not told");
    assert!(!text.contains("outbox_standstill{"), "it ships");
}

#[test]
fn what_a_failed_look_does_not_know_is_absent() {
    let (meters, readings) = active();
    let told = |name: &str| readings.prometheus().contains(&format!("\n{name}{{"));
    let of_looks =
        ["outbox_unsent_rows", "outbox_lease_left_seconds", "outbox_reading_age_seconds"];
    assert!(of_looks.iter().all(|name| !told(name)), "nothing was looked at yet");
    meters.publish_reading(Some(Reading::default()));
    assert!(of_looks.iter().all(|name| told(name)));
    assert!(readings.prometheus().contains("\noutbox_oldest_unsent_seconds{outbox=\"shop\"} 0\n"));
    meters.publish_reading(None);
    assert!(of_looks.iter().all(|name| !told(name)), "an old number would look like a good one");
    assert!(told("outbox_turn_held") && told("outbox_delivered_rows_total"));
}

#[test]
fn a_database_that_went_back_appends_nothing() {
    let (meters, _) = active();
    for newest in [Some(100), None, Some(110), Some(50), Some(60)] {
        meters.publish_reading(Some(Reading { newest, ..Reading::default() }));
    }
    assert_eq!(meters.appended.read(), 20);
}

#[test]
fn a_turn_whose_lease_has_passed_is_not_held() {
    let (meters, readings) = active();
    let held = || readings.prometheus().contains("\noutbox_turn_held{outbox=\"shop\"} 1\n");
    assert!(held());
    meters.has_turn(Deadline::new(Instant::now()));
    assert!(!held(), "a relay that was frozen does not claim what another may have");
}

#[test]
fn names_of_metrics_are_those_of_prometheus() {
    for Metric { name, kind, unit, .. } in METRICS {
        assert!(name.starts_with("outbox_"), "{name}");
        assert_eq!(*kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
        let of_unit = ["seconds", "bytes", "rows"].contains(unit);
        assert!(!of_unit || name.contains(unit), "{name} counts {unit}");
    }
}
