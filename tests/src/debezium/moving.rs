//! From Debezium to the relay and back while an application writes: what docs/debezium.md tells people to do.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use sqlx::postgres::PgPool;
use tokio::task::JoinHandle;

use super::{
    Scene,
    connector::{Connector, STEP},
    scene::{Read, run},
};
use crate::{Executable, RunningRelay, Schema, eventually};

const ACCOUNTS: i64 = 5;
/// How long each stretch is in which one of the two is alone.
const STRETCH: Duration = Duration::from_secs(2);

/// An application that writes events of accounts, each account's in order.
struct Application {
    ended: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Application {
    fn start(pool: PgPool) -> Self {
        let (ended, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (asked, count) = (Arc::clone(&ended), Arc::clone(&written));
        let task = tokio::spawn(async move {
            let mut account = 0;
            while !asked.load(Relaxed) {
                account = account % ACCOUNTS + 1;
                let mut tx = pool.begin().await.expect("a transaction");
                let n: i64 =
                    sqlx::query_scalar("UPDATE accounts SET n = n + 1 WHERE id = $1 RETURNING n")
                        .bind(account)
                        .fetch_one(&mut *tx)
                        .await
                        .expect("an account");
                // As Debezium's users do: the row is gone with its own transaction, and the log has it.
                let id: uuid::Uuid = sqlx::query_scalar(
                    "INSERT INTO outbox VALUES (gen_random_uuid(), 'account', $1::text, 'Counted', jsonb_build_object('n', $2::bigint)) RETURNING id",
                )
                .bind(account.to_string())
                .bind(n)
                .fetch_one(&mut *tx)
                .await
                .expect("an event");
                let deleted = sqlx::query("DELETE FROM outbox WHERE id = $1").bind(id);
                deleted.execute(&mut *tx).await.expect("the row is there");
                tx.commit().await.expect("a commit");
                count.fetch_add(1, Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Self { ended, written, task }
    }

    /// Waits until it has written so many more.
    async fn goes_on(&self, more: u64) {
        let target = self.written.load(Relaxed) + more;
        eventually(STEP, "the application writes", async || self.written.load(Relaxed) >= target)
            .await;
    }

    async fn end(self) -> u64 {
        self.ended.store(true, Relaxed);
        self.task.await.expect("the application does not fail");
        self.written.load(Relaxed)
    }
}

/// Goes there and back; nothing may be missing, each account's events come in order, and each copy is recognised.
pub async fn there_and_back(scene: &Scene, relay: &Executable) {
    let schema = scene.postgres.schema().await;
    let topics = ["moved.account".to_owned()];
    scene.topics(&topics).await;
    schema
        .run(&format!(
            "CREATE TABLE outbox (id uuid NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
                type varchar(255) NOT NULL, payload jsonb);
             CREATE TABLE accounts AS SELECT id::bigint, 0::bigint AS n FROM generate_series(1, {ACCOUNTS}) id"
        ))
        .await;
    let mut settings = toml::Table::new();
    settings.insert("topic_prefix".into(), "moved".into());
    let topic = "moved.${routedByValue}";
    settings.insert("route_topic_replacement".into(), topic.into());
    let (config, _) = scene.relay(relay, &schema, &settings);
    let adopt = |end: bool| {
        let mut command = scene.relay(relay, &schema, &settings).1;
        command.args(["adopt", "--table", &format!("{}.outbox", schema.name())]);
        if end {
            command.arg("--end");
        }
        run(command)
    };

    let (there, back) = (format!("there_{}", schema.name()), format!("back_{}", schema.name()));
    let first = Connector::start(scene, &schema, ("there", &there), &settings, topic).await;
    let application = Application::start(schema.pool().clone());
    tokio::time::sleep(STRETCH).await;

    // There. From the trigger on each row is both in the log and in our table.
    outbox_relay::migrate(&config).await.expect("the tables are made");
    let said = adopt(false).await;
    let position = said.rsplit("is at position ").next().expect("the position").trim().to_owned();
    application.goes_on(20).await;
    confirmed(&schema, &there, &position).await;
    let running = RunningRelay::start(config).await;
    application.goes_on(50).await;
    first.stop().await;
    first.remove(&schema).await;
    tokio::time::sleep(STRETCH).await;

    // Back. What was committed before the slot has to be sent before the connector sends anything.
    schema.run(&format!("SELECT pg_create_logical_replication_slot('{back}', 'pgoutput')")).await;
    let last = schema.number("SELECT max(seq) FROM outbox_events").await;
    let before =
        format!("SELECT count(*) FROM outbox_events WHERE seq <= {last} AND sent_at IS NULL");
    eventually(STEP, "the relay has sent what was before", async || {
        schema.number(&before).await == 0
    })
    .await;
    application.goes_on(20).await;
    let second = Connector::start(scene, &schema, ("back", &back), &settings, topic).await;
    application.goes_on(50).await;
    adopt(true).await;
    let waiting = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL";
    eventually(STEP, "the relay has nothing left", async || schema.number(waiting).await == 0)
        .await;
    running.stop().await;
    tokio::time::sleep(STRETCH).await;

    let written = application.end().await;
    let mut read = Vec::new();
    eventually(STEP, "every event is there", async || {
        read = scene.read(&topics).await;
        let distinct: std::collections::HashSet<String> = read.iter().map(Read::id).collect();
        distinct.len() as u64 >= written
    })
    .await;
    second.remove(&schema).await;
    let copies = judge(&read);
    assert!(copies > 0, "both have run at one time");
    println!(
        "there and back: {written} events, none missing, in order; {copies} copies, each with the first one's id"
    );
}

/// Waits until a slot's connector has confirmed the log up to a position.
async fn confirmed(schema: &Schema, slot: &str, position: &str) {
    let asked = format!(
        "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}' AND confirmed_flush_lsn >= '{position}'"
    );
    eventually(STEP, "the connector has read the log up to the trigger", async || {
        schema.number(&asked).await == 1
    })
    .await;
}

/// The events as a consumer takes them that knows copies by their ids.
fn judge(read: &[Read]) -> usize {
    let mut first: HashMap<String, &Read> = HashMap::new();
    let mut accounts: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
    let mut copies = 0;
    for record in read {
        if let Some(first) = first.get(&record.id()) {
            let same = (&first.key, &first.value, first.partition);
            assert_eq!(
                (&record.key, &record.value, record.partition),
                same,
                "a copy is the same event"
            );
            copies += 1;
            continue;
        }
        first.insert(record.id(), record);
        let value: serde_json::Value =
            serde_json::from_slice(record.value.as_deref().unwrap_or_default()).expect("JSON");
        let key = record.key.clone().expect("an account");
        let last = accounts.entry(key).or_default();
        let n = value["n"].as_i64().expect("a number");
        assert_eq!(n, *last + 1, "an account's events are complete and in order");
        *last = n;
    }
    assert_eq!(accounts.len() as i64, ACCOUNTS);
    copies
}
