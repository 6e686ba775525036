//! Signals are what their table says.

use std::sync::{Arc, Mutex};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::*;

/// The events of a log: level, then name and value of each field.
type Lines = Arc<Mutex<Vec<(String, Vec<(String, String)>)>>>;

struct Capture(Lines);

struct Fields(Vec<(String, String)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned()));
    }
}

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        let level = event.metadata().level().to_string().to_lowercase();
        self.0.lock().unwrap().push((level, fields.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn every() -> Vec<Signal> {
    let error = String::from("refused");
    vec![
        Signal::Active { fence: 3 },
        Signal::BrokerTrouble { error: error.clone() },
        Signal::DatabaseOutage { error: error.clone() },
        Signal::Doubtful { reason: "`a` is longer than `b`".into() },
        Signal::Fenced { error: error.clone() },
        Signal::KafkaOutage { error: error.clone() },
        Signal::ListeningBroken { error: error.clone() },
        Signal::Moving,
        Signal::PruneFailed { error: error.clone() },
        Signal::Pruned { removed: 9 },
        Signal::SetAside { seq: 7, event: "Order/1 e-1".into(), error: error.clone() },
        Signal::ShutdownBegun,
        Signal::Standby { holder: "host/1".into() },
        Signal::TurnLost { fence: 3 },
        Signal::Unknown { rows: 5, error },
    ]
}

#[test]
fn every_signal_is_told_as_the_table_says() {
    let lines = Lines::default();
    tracing::subscriber::with_default(Capture(Arc::clone(&lines)), || {
        every().iter().for_each(Signal::emit);
    });
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), SIGNALS.len());
    for (level, fields) in lines.iter() {
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
