//! Debezium's connector for PostgreSQL with its outbox event router, in a worker of Kafka Connect, both with the defaults
//! that their own scripts and pages have.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xtask::failure::{Outcome, failure};
use xtask::server::{Connect, ConnectSettings};

use crate::latency::blocking;
use crate::server::{Database, variable};

/// As `connect-distributed.sh` and `kafka-run-class.sh` of Kafka 4.1 start it.
const JAVA: [&str; 7] = [
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];
const LOOK: Duration = Duration::from_millis(100);
/// How long a step may take.
const STEP: Duration = Duration::from_mins(1);
const CONFIG: &str = "/connectors/outbox/config";

/// A worker with the connector; ended when this is dropped.
#[derive(Debug)]
pub(super) struct Debezium {
    connect: Arc<Connect>,
    slot: String,
}

impl Debezium {
    /// Starts both; returns when the connector reads the log.
    pub(super) async fn start(
        folder: &Path,
        kafka: &str,
        topic: &str,
        (database, port): (&Database, u16),
        is_prompt: bool,
    ) -> Outcome<Self> {
        let slot = database.name.clone();
        let jars = PathBuf::from(variable("INBOX_TEST_CONNECT_JARS")?);
        let plugin = PathBuf::from(variable("INBOX_TEST_DEBEZIUM_JARS")?);
        let (folder, kafka, name) =
            (folder.to_owned(), kafka.to_owned(), format!("connect-{topic}"));
        let connect = blocking(move || {
            let properties = format!(
                "group.id={name}\nconfig.storage.topic={name}-configs\noffset.storage.topic={name}-offsets\n\
                 status.storage.topic={name}-status\noffset.flush.interval.ms=60000\n"
            );
            let settings = ConnectSettings { properties: &properties, java: &JAVA };
            Connect::start(&folder, &name, (&jars, &plugin), &kafka, settings)
        });
        let debezium = Self { connect: Arc::new(connect.await?), slot };
        database.run("CREATE PUBLICATION outbox FOR TABLE outbox_events").await?;
        let mut settings = settings(&database.name, port, topic);
        if is_prompt {
            settings["poll.interval.ms"] = "10".into();
        }
        debezium.call("PUT", CONFIG, settings.to_string()).await?;
        debezium.wait(database, true).await?;
        Ok(debezium)
    }

    /// Has it write down where it is, and stops it.
    pub(super) async fn pause(&self, database: &Database) -> Outcome {
        self.call("PUT", "/connectors/outbox/stop", String::new()).await?;
        self.wait(database, false).await
    }

    /// Lets it go on.
    pub(super) async fn resume(&self) -> Outcome {
        self.call("PUT", "/connectors/outbox/resume", String::new()).await.map(drop)
    }

    pub(super) fn pid(&self) -> u32 {
        self.connect.pid()
    }

    /// Fails if the connector has.
    pub(super) async fn looked_at(&self) -> Outcome {
        let answer = self.call("GET", "/connectors/outbox/status", String::new()).await?;
        let status: Value = serde_json::from_str(&answer).unwrap_or_default();
        if status["tasks"][0]["state"] != "FAILED" {
            return Ok(());
        }
        failure(format!("the connector has failed: {}", status["tasks"][0]["trace"]))
    }

    /// Ends it, and drops its slot: a database with one stays.
    pub(super) async fn end(self, database: &Database) -> Outcome {
        let slot = self.slot.clone();
        drop(self);
        let began = Instant::now();
        while began.elapsed() < STEP && is_active(database, &slot).await? {
            tokio::time::sleep(LOOK).await;
        }
        database.run(&format!("SELECT pg_drop_replication_slot('{slot}')")).await
    }

    /// Waits until its slot is in use, or is not.
    async fn wait(&self, database: &Database, is_read: bool) -> Outcome {
        let began = Instant::now();
        while is_active(database, &self.slot).await? != is_read {
            if began.elapsed() > STEP {
                let log = self.connect.log();
                return failure(format!("the connector did not start or stop reading:\n{log}"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn call(
        &self,
        method: &'static str,
        path: &'static str,
        body: String,
    ) -> Outcome<String> {
        let connect = Arc::clone(&self.connect);
        let (status, answer) = blocking(move || connect.call(method, path, &body)).await?;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        failure(format!("Kafka Connect refuses {method} {path}: {answer}"))
    }
}

async fn is_active(database: &Database, slot: &str) -> Outcome<bool> {
    let sql = format!(
        "SELECT coalesce(bool_or(active), false) FROM pg_replication_slots WHERE slot_name = '{slot}'"
    );
    Ok(database.row(&sql).await?.get(0))
}

/// Only what it cannot do without, and what makes its records hold what ours do.
fn settings(database: &str, port: u16, topic: &str) -> Value {
    json!({
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": port.to_string(),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": database,
        "topic.prefix": "bench",
        "plugin.name": "pgoutput",
        "publication.name": "outbox",
        "slot.name": database,
        "table.include.list": "public.outbox_events",
        "snapshot.mode": "no_data",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.table.field.event.id": "event_id",
        "transforms.outbox.table.field.event.key": "aggregate_id",
        "transforms.outbox.table.field.event.type": "event_type",
        "transforms.outbox.table.field.event.payload": "payload",
        "transforms.outbox.table.fields.additional.placement": "event_type:header,aggregate_type:header",
        "transforms.outbox.route.by.field": "aggregate_type",
        "transforms.outbox.route.topic.replacement": topic,
    })
}
