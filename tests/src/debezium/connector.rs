//! A connector of Debezium with the outbox event router.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};

use super::Scene;
use crate::{Schema, eventually};

/// How long a connector may take for a step.
pub(super) const STEP: Duration = Duration::from_secs(60);
const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";
const BYTES: &str = "org.apache.kafka.connect.converters.ByteArrayConverter";

/// A connector that runs.
#[derive(Debug)]
pub(super) struct Connector<'a> {
    scene: &'a Scene,
    name: String,
    slot: String,
}

impl<'a> Connector<'a> {
    /// Starts one on the table `outbox` of a schema, with the settings that the relay has, and waits until its slot is
    /// active. The slot may be there already.
    pub(super) async fn start(
        scene: &'a Scene,
        schema: &Schema,
        (name, slot): (&str, &str),
        relay: &toml::Table,
        topic: &str,
    ) -> Self {
        let mut settings = connection_settings(scene, schema, slot);
        settings.insert("transforms".into(), "outbox".into());
        let router = "io.debezium.transforms.outbox.EventRouter";
        settings.insert("transforms.outbox.type".into(), router.into());
        for (key, value) in relay.iter() {
            settings.insert(router_name(key), router_value(key, value));
        }
        settings.insert("transforms.outbox.route.topic.replacement".into(), topic.into());
        Self::put(scene, schema, (name, slot), settings).await
    }

    /// Starts one with further settings, or others than those that all of them have.
    pub(super) async fn start_with(
        scene: &'a Scene,
        schema: &Schema,
        (name, slot): (&str, &str),
        further: &BTreeMap<String, String>,
    ) -> Self {
        let mut settings = connection_settings(scene, schema, slot);
        settings.insert("topic.prefix".into(), name.into());
        settings.extend(further.iter().map(|(key, value)| (key.clone(), value.clone().into())));
        Self::put(scene, schema, (name, slot), settings).await
    }

    async fn put(
        scene: &'a Scene,
        schema: &Schema,
        (name, slot): (&str, &str),
        settings: Map<String, Value>,
    ) -> Self {
        let path = format!("/connectors/{name}/config");
        let (status, answer) = scene.call("PUT", &path, &Value::from(settings).to_string()).await;
        assert!(status == 200 || status == 201, "the connector {name} was not made: {answer}");
        let connector = Self { scene, name: name.into(), slot: slot.into() };
        eventually(STEP, &format!("the connector {name} reads its slot"), async || {
            let state = connector.state().await;
            assert!(state != "FAILED", "the connector {name} has failed: {}", scene.log());
            let active = format!(
                "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{}' AND active",
                connector.slot
            );
            state == "RUNNING" && schema.number(&active).await == 1
        })
        .await;
        connector
    }

    /// `RUNNING`, `FAILED` and so on.
    async fn state(&self) -> String {
        let path = format!("/connectors/{}/status", self.name);
        let (_, answer) = self.scene.call("GET", &path, "").await;
        let status: Value = serde_json::from_str(&answer).unwrap_or_default();
        status["tasks"][0]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether the place that it has written down is behind its snapshot.
    pub(super) async fn streams(&self) -> bool {
        let path = format!("/connectors/{}/offsets", self.name);
        let (_, answer) = self.scene.call("GET", &path, "").await;
        let offsets: Value = serde_json::from_str(&answer).unwrap_or_default();
        let place = &offsets["offsets"][0]["offset"];
        place["lsn"].is_number() && place["snapshot"].is_null()
    }

    /// Has it write what it has read, and end; its slot stays.
    pub(super) async fn stop(&self) {
        let (status, answer) =
            self.scene.call("PUT", &format!("/connectors/{}/stop", self.name), "").await;
        assert!(status == 202 || status == 204, "the connector was not stopped: {answer}");
        eventually(STEP, "the connector has stopped", async || self.state().await.is_empty()).await;
    }

    /// Removes it and its slot.
    pub(super) async fn remove(self, schema: &Schema) {
        let (status, answer) =
            self.scene.call("DELETE", &format!("/connectors/{}", self.name), "").await;
        assert!(status == 204, "the connector was not removed: {answer}");
        let gone = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{}' AND active",
            self.slot
        );
        eventually(STEP, "the slot is free", async || schema.number(&gone).await == 0).await;
        schema.run(&format!("SELECT pg_drop_replication_slot('{}')", self.slot)).await;
    }
}

/// What all connectors have.
fn connection_settings(scene: &Scene, schema: &Schema, slot: &str) -> Map<String, Value> {
    let settings = json!({
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": scene.postgres.port().to_string(),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "publication.name": format!("{}_outbox", schema.name()),
        "publication.autocreate.mode": "filtered",
        "slot.name": slot,
        "table.include.list": format!("{}.outbox", schema.name()),
        "snapshot.mode": "no_data",
        "tombstones.on.delete": "false",
        "topic.creation.default.partitions": "4",
        "topic.creation.default.replication.factor": "1",
        "key.converter": STRING,
        "value.converter": STRING,
    });
    match settings {
        Value::Object(settings) => settings,
        _ => Map::new(),
    }
}

/// The relay's key as Debezium and Connect have it.
fn router_name(key: &str) -> String {
    let dotted = key.replace('_', ".");
    match key {
        key if key == "topic_prefix" || key.contains("converter") => dotted,
        _ => format!("transforms.outbox.{dotted}"),
    }
}

fn router_value(key: &str, value: &toml::Value) -> Value {
    match value {
        toml::Value::Boolean(flag) => flag.to_string().into(),
        toml::Value::String(text) if key.ends_with("_converter") => match text.as_str() {
            "json" => JSON,
            "bytes" => BYTES,
            _ => STRING,
        }
        .into(),
        other => other.as_str().unwrap_or_default().into(),
    }
}
