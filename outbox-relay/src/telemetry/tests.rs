//! Signals are what their table says.

use service_kit::testing::{assert_snapshot, capture_log, messages};

use super::*;

fn every() -> Vec<Signal> {
    let error = String::from("refused");
    vec![
        Signal::Active { fence: 3 },
        Signal::BrokerTrouble { times: 3, seconds: 30, error: error.clone() },
        Signal::DatabaseOutage { times: 3, seconds: 30, error: error.clone() },
        Signal::DestinationOutage {
            destination: "destination shop".into(),
            seconds: 0,
            error: error.clone(),
        },
        Signal::DestinationWorks { destination: "destination shop".into(), seconds: 9 },
        Signal::Disabled,
        Signal::Doubtful { reason: "`a` is longer than `b`".into() },
        Signal::Fenced { error: error.clone() },
        Signal::Forbidden { reason: "grant WRITE".into() },
        Signal::HttpFailed { error: error.clone() },
        Signal::HttpListening { address: "127.0.0.1:9464".into() },
        Signal::IdShared { reason: "another relay uses it".into() },
        Signal::KafkaOutage { times: 3, seconds: 30, error: error.clone() },
        Signal::LeaseImpossible { holder: "host/1".into(), seconds: 3_600, wait: 15 },
        Signal::ListeningBroken { times: 3, seconds: 30, error: error.clone() },
        Signal::Moving,
        Signal::OutageOver { of: "kafka_outage", times: 40, seconds: 31 },
        Signal::Panicked {
            thread: "main".into(),
            place: "src/pay.rs:7:9".into(),
            backtrace: Some("0: pay".into()),
            error: error.clone(),
        },
        Signal::PartitionLed { topic: "shop.Order".into(), partition: 3 },
        Signal::PartitionLeaderless { topic: "shop.Order".into(), partition: 3 },
        Signal::PruneFailed { times: 3, seconds: 30, error: error.clone() },
        Signal::Pruned { removed: 9 },
        Signal::ReadingFailed { times: 3, seconds: 30, error: error.clone() },
        Signal::SequenceBehind { reason: "next is 4".into() },
        Signal::SetAside { seq: 7, event: "Order/1 e-1".into(), error: error.clone() },
        Signal::ShutdownBegun,
        Signal::Started {
            configuration: "relay.toml".into(),
            database: "postgres://db/shop".into(),
            kafka: "kafka:9092".into(),
            http: "127.0.0.1:9465".into(),
            program: "outbox-relay 0.1.0".into(),
        },
        Signal::Standby { holder: "host/1".into() },
        Signal::TopicFound { topic: "shop.Order".into() },
        Signal::TopicMissing { topic: "shop.Order".into() },
        Signal::TracesExported { spans: 40, seconds: 31 },
        Signal::TracesLost { spans: 40, error: error.clone() },
        Signal::TurnLost { fence: 3 },
        Signal::Unknown { rows: 5, times: 3, seconds: 30, error: error.clone() },
        Signal::WebhookFile { webhook: "shop".into(), error },
        Signal::WentBack { rows: 5 },
    ]
}

#[test]
fn every_signal_is_told_as_the_table_says() {
    let lines = capture_log(|| every().iter().for_each(Signal::emit));
    assert_eq!(lines.len(), SIGNALS.len());
    for (level, fields) in &lines {
        let told = fields.iter().find(|(name, _)| name == "signal").map(|(_, value)| value);
        let entry = SIGNALS.iter().find(|entry| Some(entry.name) == told.map(String::as_str));
        let entry = entry.unwrap_or_else(|| panic!("{fields:?} is not in the table"));
        assert_eq!(level, entry.level, "{}", entry.name);
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let mut wanted = [["message", "signal"].as_slice(), entry.fields].concat();
        names.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(names, wanted, "{}", entry.name);
    }
}

#[test]
fn every_message_of_a_signal_is_its_snapshot() {
    let lines = capture_log(|| every().iter().for_each(Signal::emit));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/telemetry/snapshots/signals.txt");
    assert_snapshot(path, &messages(&lines));
}

#[test]
fn a_sentence_is_the_message_of_its_line_and_in_no_field() {
    let lines = capture_log(|| Signal::Doubtful { reason: "`a` is longer than `b`".into() }.emit());
    let (_, fields) = &lines[0];
    assert_eq!(fields.len(), 2, "{fields:?}");
    assert!(fields.contains(&("message".into(), "`a` is longer than `b`".into())), "{fields:?}");
    assert!(SIGNALS.iter().all(|entry| !entry.fields.contains(&"error")));
}
