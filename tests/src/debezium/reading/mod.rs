//! What our consumer makes of what a real Debezium sends, in each configuration of `outbox.toml` and `raw.toml`.

mod configuration;
mod seen;

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use inbox_consumer::{
    Consumer, Routes,
    config::{Config, Overrides},
};
use sqlx::Postgres;

use self::{
    configuration::{Configuration, configurations},
    seen::{See, Seen, TABLE, Verbatim},
};
use super::{
    Scene,
    connector::{Connector, STEP},
};
use crate::{Running, Schema, eventually};

/// Has a consumer read behind a connector in every configuration, or in those whose name contains a text; answers how
/// many there are, and which have failed.
pub async fn read_all(scene: &Scene, named: &str) -> (usize, Vec<String>) {
    let (mut count, mut failed) = (0, Vec::new());
    for one in configurations().filter(|one| one.name.contains(named)) {
        let schema = scene.postgres.schema().await;
        let placed = one.placed_in(schema.name());
        let reads = AssertUnwindSafe(read(scene, &schema, &placed)).catch_unwind();
        // What went wrong has been printed. Others are worth their while nevertheless.
        if reads.await.is_err() {
            scene.call("DELETE", &format!("/connectors/{}", one.name), "").await;
            failed.push(one.name.clone());
        }
        count += 1;
    }
    (count, failed)
}

/// Has a connector send what is written, and a consumer read it.
async fn read(scene: &Scene, schema: &Schema, configuration: &Configuration) {
    let Configuration { name, .. } = configuration;
    scene.topics(&configuration.topics).await;
    schema.run(&configuration.tables).await;
    schema.run(TABLE).await;
    for transaction in &configuration.before {
        schema.run(transaction).await;
    }
    let slot = format!("slot_{}", schema.name());
    let settings = &configuration.connector;
    let connector = Connector::start_with(scene, schema, (name, &slot), settings).await;
    for transaction in &configuration.rows {
        schema.run(transaction).await;
    }
    let config = config(scene, schema, configuration);
    inbox_consumer::migrate::<Postgres>(&config).await.expect("the inbox tables are made");
    let see = |routes: Routes<Postgres>, event_type| routes.on_with(event_type, Verbatim, See);
    // Where all is parked there would be no route.
    let routes = Routes::default().ignore("nothing");
    let routes = configuration.types().into_iter().fold(routes, see);
    let consumer = Consumer::builder(config, routes).build().await;
    let running = Running::of(consumer.expect("the consumer is sound"));
    let count = async |table: &str| schema.number(&format!("SELECT count(*) FROM {table}")).await;
    let wanted = configuration.events.len() + configuration.parked.len();
    eventually(STEP, &format!("{name}: {wanted} events are read"), async || {
        count("seen").await + count("inbox_parked").await >= wanted as i64
            && running.counters.read().ignored >= configuration.ignored
    })
    .await;
    // All that is in the topics, so that nothing comes twice later.
    let records = scene.read(&configuration.topics).await.len() as i64;
    eventually(STEP, &format!("{name}: {records} records are settled"), async || {
        schema.number("SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions").await
            == records
    })
    .await;
    let ignored = running.counters.read().ignored;
    running.stop().await;
    connector.remove(schema).await;
    configuration.judge(&Seen::all(schema).await, &parked(schema).await);
    assert_eq!(ignored, configuration.ignored, "{name}: what is ignored");
    println!(
        "{name}: {records} records, {} events as they should be, {} parked with the right reason, {ignored} ignored",
        configuration.events.len(),
        configuration.parked.len()
    );
}

/// The reasons of what is parked.
async fn parked(schema: &Schema) -> Vec<String> {
    sqlx::query_scalar("SELECT record::jsonb ->> 'error' FROM inbox_parked ORDER BY 1")
        .fetch_all(schema.pool())
        .await
        .expect("reading what is parked")
}

fn config(scene: &Scene, schema: &Schema, configuration: &Configuration) -> Config {
    let file = scene.folder.path().join(format!("{}.toml", schema.name()));
    let text = format!(
        "[consumer]\nname = \"read\"\n[kafka]\nbootstrap = {:?}\ntopics = {:?}\ngroup = {:?}\n\
         [database]\nurl = {:?}\n[http]\nlisten = \"off\"\n[park]\nreleases_max = 0\n{}",
        scene.kafka.address(),
        configuration.topics,
        schema.name(),
        schema.url(),
        configuration.section(),
    );
    std::fs::write(&file, &text).expect("a folder takes files");
    let config = Config::load(Some(file.as_path()), [], &Overrides::new());
    config.unwrap_or_else(|error| panic!("{}: {error}\n{text}", configuration.name))
}
