//! What the brokers do not allow any more has a name, at once, and goes on by itself once they do.

use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Routes};
use tests::{Counter, KafkaSettings, OwnKafka, Running, SOON, Services, Stage, eventually};

/// Brokers are asked, and say so by themselves, every few seconds.
const NAMED_MAX: Duration = Duration::from_secs(15);

/// Whoever is not denied something may do it.
const AUTHORIZER: &str = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
    allow.everyone.if.no.acl.found=true\n";

/// A consumer at work on a broker with access lists.
async fn at_work() -> (OwnKafka, Stage, Running) {
    let properties = AUTHORIZER.to_owned();
    let settings = KafkaSettings { properties, ..KafkaSettings::default() };
    let kafka = OwnKafka::start_with(settings).await;
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
        let about = format!("READ the {resource} {name}");
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
