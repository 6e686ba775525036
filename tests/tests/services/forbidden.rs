//! What the brokers do not allow any more has a name, at once, and goes on by itself once they do.

use std::time::{Duration, Instant};

use inbox_consumer::{
    Consumer, Ended, Routes,
    config::{Config, Http},
    migrate,
    testing::broker::{Failure, MockBroker, Request},
};
use outbox_core::OutboxEvent;
use sqlx::Postgres;
use tests::{
    Counter, KafkaSettings, Outbox, OwnKafka, Running, RunningRelay, SOON, Services, Stage, Topic,
    arrivals, counted_event, eventually, firsts, soak::checker::EFFECTS, unique,
};

use super::commands::{ran, worker};
use crate::programs::RELAY;

/// Brokers are asked, and say so by themselves, every few seconds.
const NAMED_MAX: Duration = Duration::from_secs(15);

/// Whoever is not denied something may do it.
const AUTHORIZER: &str = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
    allow.everyone.if.no.acl.found=true\n";

/// A broker with access lists.
async fn guarded() -> OwnKafka {
    let properties = AUTHORIZER.to_owned();
    let settings = KafkaSettings { properties, ..KafkaSettings::default() };
    OwnKafka::start_with(settings).await
}

/// A consumer at work on one.
async fn at_work() -> (OwnKafka, Stage, Running) {
    let kafka = guarded().await;
    let topic = kafka.topic("forbidden", 2).await;
    let stage = Stage::with(topic, Services::from_env().schema().await).await;
    stage.count("before", 1, 5).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the first events", async || stage.effects().await == 5).await;
    (kafka, stage, running)
}

async fn change(kafka: &OwnKafka, verbs: [&str; 2], resource: &str, name: &str, operation: &str) {
    let [verb, principal] = verbs;
    let mut arguments =
        vec![verb, principal, "User:ANONYMOUS", "--operation", operation, resource, name];
    arguments.extend((verb == "--remove").then_some("--force"));
    kafka.change_rights(&arguments).await;
}

/// Takes READ away; everything else stays.
async fn deny(kafka: &OwnKafka, resource: &str, name: &str) {
    change(kafka, ["--add", "--allow-principal"], resource, name, "All").await;
    change(kafka, ["--add", "--deny-principal"], resource, name, "Read").await;
}

async fn allow(kafka: &OwnKafka, resource: &str, name: &str) {
    change(kafka, ["--remove", "--deny-principal"], resource, name, "Read").await;
}

/// Waits until it is not ready for want of a right to this, and says so in metrics.
async fn named(running: &Running, resource: &str, name: &str) {
    let begun = Instant::now();
    let says = || {
        let readiness = running.readings.readiness();
        let about = format!("READ on the {resource} {name}");
        readiness
            .reasons
            .iter()
            .any(|why| why.reason == "forbidden" && why.sentence.contains(&about))
    };
    eventually(SOON, "it is named", async || says()).await;
    let took = begun.elapsed();
    println!("{resource}: after {took:.1?}");
    assert!(took < NAMED_MAX, "after {took:?}");
    let metrics = running.readings.prometheus();
    let of = format!("resource=\"{resource}\",name=\"{name}\",operation=\"READ\"}} 1");
    assert!(metrics.contains(&of), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_read_is_named_and_goes_on() {
    let (kafka, stage, running) = at_work().await;
    deny(&kafka, "--topic", stage.topic.name()).await;
    stage.count("denied", 1, 3).await;
    named(&running, "topic", stage.topic.name()).await;
    let stands = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE 'forbidden: %READ%'";
    eventually(SOON, "status", async || stage.schema.number(stands).await > 0).await;
    assert!(running.readings.prometheus().contains("reason=\"forbidden\"} 1"));
    allow(&kafka, "--topic", stage.topic.name()).await;
    eventually(SOON, "the rest", async || stage.of("denied").await == [1, 2, 3]).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_may_not_be_joined_is_named_and_goes_on() {
    let (kafka, stage, running) = at_work().await;
    let group = stage.config.group().to_owned();
    deny(&kafka, "--group", &group).await;
    stage.count("denied", 1, 3).await;
    named(&running, "group", &group).await;
    allow(&kafka, "--group", &group).await;
    eventually(SOON, "the rest", async || stage.of("denied").await == [1, 2, 3]).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The group's offsets are asked for beside the client that reads; nothing else says that they are forbidden.
#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_may_not_be_fetched_are_named_and_the_partition_goes_on() {
    let broker = MockBroker::start(&[("events", 1)]).unwrap();
    broker.fail_next(Request::OffsetFetch, &[Failure::GroupForbidden; 6]).unwrap();
    let schema = Services::from_env().schema().await;
    let mut config = Config::new(unique("c"), broker.bootstrap(), ["events"], schema.url());
    config.http = Http::off();
    migrate::<Postgres>(&config).await.unwrap();
    schema.run(EFFECTS).await;
    let routes = Routes::default().on("Counted", Counter);
    let group = config.group().to_owned();
    let running = Running::of(Consumer::builder(config, routes).build().await.unwrap());
    named(&running, "group", &group).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Each `check` says which right is missing, and blames neither the address nor the brokers.
#[tokio::test(flavor = "multi_thread")]
async fn check_names_what_is_forbidden() {
    let (kafka, stage, running) = at_work().await;
    running.stop().await;
    let (topic, group) = (stage.topic.name().to_owned(), stage.config.group().to_owned());
    let (topic, group) = (topic.as_str(), group.as_str());
    let check = async || {
        let (_, out, err) = ran(worker(&stage), "check").await;
        format!("{out}{err}")
    };
    let before = check().await;
    assert!(!before.contains("Kafka denies"), "{before}");
    deny(&kafka, "--topic", topic).await;
    let said = check().await;
    assert!(said.contains(&format!("READ on the topic {topic}: grant READ on it")), "{said}");
    allow(&kafka, "--topic", topic).await;
    change(&kafka, ["--add", "--deny-principal"], "--group", group, "Describe").await;
    let said = check().await;
    assert!(said.contains(&format!("READ on the group {group}: grant READ on it")), "{said}");
    assert!(!said.contains("check the address"), "{said}");

    let outbox = Outbox::with(stage.topic, Services::from_env().schema().await).await;
    change(&kafka, ["--add", "--deny-principal"], "--topic", topic, "All").await;
    let (_, out, err) = ran(outbox.command(&RELAY), "check").await;
    let wanted = format!("WRITE on the topic {topic}: grant WRITE on it");
    assert!(format!("{out}{err}").contains(&wanted), "{out}{err}");
}

/// A relay at work on a broker with access lists.
async fn relay_at_work() -> (OwnKafka, Outbox, RunningRelay) {
    let kafka = guarded().await;
    let topic = kafka.topic("forbidden", 1).await;
    let mut outbox = Outbox::with(topic, Services::from_env().schema().await).await;
    outbox.config.http.listen = "127.0.0.1:0".into();
    outbox.append("before", 1, 1).await;
    let running = outbox.start().await;
    outbox.drained(SOON).await;
    (kafka, outbox, running)
}

/// Takes WRITE away.
async fn deny_write(kafka: &OwnKafka, resource: &str, name: &str) {
    change(kafka, ["--add", "--allow-principal"], resource, name, "All").await;
    change(kafka, ["--add", "--deny-principal"], resource, name, "Write").await;
}

/// Waits until a relay says what it may not write to.
async fn relay_says(running: &RunningRelay, resource: &str, name: &str, words: &str) {
    let readings = running.readings.as_ref().unwrap();
    let says = || {
        let reasons = readings.readiness().reasons;
        let about = format!("WRITE on the {words} {name}: grant WRITE on it");
        reasons.iter().any(|why| why.reason == "forbidden" && why.sentence.contains(&about))
    };
    let begun = Instant::now();
    eventually(NAMED_MAX, "it is named", async || says()).await;
    println!("{resource}: after {:.1?}", begun.elapsed());
    let metrics = readings.prometheus();
    let of = format!("resource=\"{resource}\",name=\"{name}\",operation=\"WRITE\"}} 1");
    assert!(metrics.contains(&of), "{metrics}");
}

async fn allow_write(kafka: &OwnKafka, running: &RunningRelay, resource: &str, name: &str) {
    change(kafka, ["--remove", "--deny-principal"], resource, name, "Write").await;
    let ready = || running.readings.as_ref().unwrap().readiness().ready;
    eventually(SOON, "ready", async || ready()).await;
}

/// With fencing the broker refuses the whole transaction, and does not say for which of its topics.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_written_holds_up_its_own_rows_alone() {
    let (kafka, outbox, running) = relay_at_work().await;
    let other = kafka.topic("allowed", 1).await;
    let to = |topic: &Topic, aggregate, n| -> OutboxEvent {
        counted_event(aggregate, n).with_topic(topic.name()).unwrap()
    };
    outbox.append_all(&[to(&other, "other", 1)]).await;
    outbox.drained(SOON).await;
    let name = outbox.topic.name().to_owned();
    deny_write(&kafka, "--topic", &name).await;
    outbox.append_all(&[to(&other, "other", 2), to(&outbox.topic, "denied", 1)]).await;
    outbox.append_all(&[to(&outbox.topic, "denied", 2), to(&other, "other", 3)]).await;
    relay_says(&running, "topic", &name, "topic").await;
    eventually(SOON, "the others", async || {
        let found = arrivals(&kafka.address(), other.name(), 1).await;
        firsts(&found).get("other").is_some_and(|all| *all == [1, 2, 3])
    })
    .await;
    allow_write(&kafka, &running, "--topic", &name).await;
    outbox.drained(SOON).await;
    assert_eq!(firsts(&outbox.arrivals().await)["denied"], [1, 2]);
    assert_eq!(running.counters.read().failed, 0, "no person was needed");
    assert_eq!(running.stop().await, outbox_relay::Ended::Shutdown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transactional_id_that_may_not_be_used_is_named_and_the_relay_goes_on() {
    let (kafka, outbox, running) = relay_at_work().await;
    let id = "SELECT outbox_id::text FROM outbox_relays LIMIT 1";
    let id: String = sqlx::query_scalar(id).fetch_one(outbox.schema.pool()).await.unwrap();
    let id = format!("outbox-relay-{}", id.replace('-', ""));
    deny_write(&kafka, "--transactional-id", &id).await;
    outbox.append("denied", 1, 3).await;
    relay_says(&running, "transactional_id", &id, "transactional id").await;
    let told = "SELECT count(*) FROM outbox_relays WHERE standstill LIKE 'forbidden: %WRITE%'";
    eventually(SOON, "status", async || outbox.schema.number(told).await == 1).await;
    allow_write(&kafka, &running, "--transactional-id", &id).await;
    outbox.drained(SOON).await;
    assert_eq!(firsts(&outbox.arrivals().await)["denied"], [1, 2, 3]);
    assert_eq!(running.stop().await, outbox_relay::Ended::Shutdown);
}
