//! What each measurement has: an outbox, a receiver, and a relay with its default configuration between them.

use std::{fs, time::Duration};

use outbox_relay::config::{Config, Http, Webhook};
use tempfile::TempDir;

use super::receiver::{Manner, Receiver};
use crate::{Executable, Outbox, Services, Topic, Worker, eventually};

/// No aggregate has this number.
pub(super) const NOBODY: usize = 0;
/// The longest wait for a relay to ship what there is.
const WAIT: Duration = Duration::from_mins(15);
/// What an event of these holds besides its numbers.
const FILLING: usize = 160;

/// An outbox and a receiver.
pub(super) struct Scene {
    pub(super) outbox: Outbox,
    pub(super) receiver: Receiver,
    folder: TempDir,
}

impl Scene {
    pub(super) async fn set(manner: Manner) -> Self {
        // Nobody reaches this Kafka: no route leads there.
        let topic = Topic::planned("127.0.0.1:1", "nowhere", 1, &[]);
        let mut outbox = Outbox::with(topic, Services::from_env().schema().await).await;
        let mut defaults = Config::new(outbox.topic.bootstrap(), outbox.schema.url());
        outbox.topic.name().clone_into(&mut defaults.kafka.topic);
        defaults.http = Http { listen: "127.0.0.1:0".into() };
        outbox.config = defaults;
        outbox.record_attempts().await;
        let receiver = Receiver::start(manner).await;
        Self { outbox, receiver, folder: tempfile::tempdir().expect("a folder") }
    }

    /// Where events go.
    pub(super) fn url(&self) -> String {
        format!("http://{}/events", self.receiver.address)
    }

    /// Starts a relay; all keys of the webhook but name and URL are left out.
    pub(super) fn relay(&self, program: &Executable) -> Worker {
        let file = self.folder.path().join("relay.toml");
        let text = format!(
            "[[routes]]\nevent_type = \"*\"\nto = \"shop\"\n\n\
             [[webhooks]]\nname = \"shop\"\nurl = {:?}\n",
            self.url()
        );
        fs::write(&file, text).expect("a folder takes files");
        let mut command = self.outbox.command(program);
        Worker::spawn(command.env("OUTBOX_CONFIG", file).arg("run"))
    }

    /// Stores so many events of so many aggregates. The first is number 1 of aggregate 1.
    pub(super) async fn store(&self, events: usize, aggregates: usize) {
        let fill = format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload)
             SELECT gen_random_uuid(), 'Counted', 'Account', aggregate::text, convert_to(payload, 'UTF8')
             FROM ({}) events",
            numbered(events, aggregates)
        );
        self.outbox.schema.run(&fill).await;
        self.settle("outbox_events").await;
    }

    /// So that neither the planner nor the disk is busy with what was just written.
    pub(super) async fn settle(&self, table: &str) {
        self.outbox.schema.run(&format!("ANALYZE {table}")).await;
        self.outbox.schema.run("CHECKPOINT").await;
    }

    /// Waits until the receiver has accepted so many events.
    pub(super) async fn accepted(&self, events: usize) {
        eventually(WAIT, &format!("{events} events are accepted"), async || {
            self.receiver.read(|ledger| ledger.events) >= events
        })
        .await;
    }

    /// Fails unless all events of each aggregate were accepted in order, but for one aggregate of which none may be.
    pub(super) async fn demand_order(&self, but: usize) {
        let counts = "SELECT aggregate_id::bigint, count(*) FROM outbox_events GROUP BY 1";
        let counts: Vec<(i64, i64)> =
            sqlx::query_as(counts).fetch_all(self.outbox.schema.pool()).await.expect("the outbox");
        self.receiver.read(|ledger| {
            let reordered = ledger.reordered;
            assert_eq!(reordered, 0, "OUT OF ORDER: events behind a later one of their aggregate");
            for (aggregate, count) in counts {
                let aggregate = usize::try_from(aggregate).expect("aggregates have numbers");
                let count = usize::try_from(count).expect("a count");
                let expected = if aggregate == but { 0 } else { count };
                let found = ledger.of(aggregate);
                assert_eq!(found, expected, "LOST OR TOO EARLY: events of aggregate {aggregate}");
            }
        });
    }

    /// The most attempts of a row, of all aggregates but this one.
    pub(super) async fn attempts_but_of(&self, aggregate: usize) -> i64 {
        self.outbox.attempts_max(&aggregate.to_string()).await
    }
}

/// Events in SQL: rows of `aggregate` and `payload`, in their order. Aggregates come by chance, the same each time.
pub(super) fn numbered(events: usize, aggregates: usize) -> String {
    format!(
        "SELECT aggregate, '{{\"aggregate\":' || aggregate
            || ',\"n\":' || row_number() OVER (PARTITION BY aggregate ORDER BY g)
            || ',\"text\":\"{}\"}}' AS payload
         FROM (SELECT g, CASE g WHEN 0 THEN 1 ELSE 1 + (hashint4(g) & 2147483647) % {aggregates} END AS aggregate
            FROM generate_series(0, {events} - 1) g) numbers ORDER BY g",
        "x".repeat(FILLING)
    )
}

/// The most calls at once of a webhook that says nothing of it.
pub(super) fn calls_max() -> u16 {
    Webhook::default().calls_max
}

/// The most memory that a process has had in RAM, in KiB.
pub(super) fn memory_kib(worker: &Worker) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", worker.pid()));
    let status = status.expect("a process that runs has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("a status has VmHWM")
}

/// The same in MiB, for people.
#[expect(clippy::cast_precision_loss, reason = "memory of a process")]
pub(super) fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}
