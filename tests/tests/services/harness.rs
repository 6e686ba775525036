//! The harness itself, on real services: what tests rely on does what it says.

use std::process::Command;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use sqlx::{Connection as _, PgConnection};
use tests::{
    Ending, OwnKafka, OwnPostgres, Producer, Proxy, Record, SOON, Schema, Services, StopMode,
    Worker, arrivals, eventually, unique,
};

#[tokio::test]
async fn records_go_where_they_are_sent() {
    let services = Services::from_env();
    let topic = services.topic("harness", 3).await;
    let producer = Producer::new(&services.kafka);
    let record = |partition| Record::event("id", "T", "a", "{}").partition(partition);
    let sent = producer.send(topic.name(), &[record(2), record(0), record(2)]).await;
    assert_eq!(sent, [(2, 0), (0, 0), (2, 1)]);
    assert_eq!(topic.offsets(2).await, (0, 2));
    assert_eq!(topic.offsets(1).await, (0, 0));
}

#[tokio::test]
async fn an_aborted_transaction_leaves_offsets_behind() {
    let services = Services::from_env();
    let topic = services.topic("harness", 1).await;
    let records = [Record::default().payload("x").partition(0)];
    for ending in [Ending::Abort, Ending::Commit] {
        Producer::send_in_transaction(&services.kafka, topic.name(), &records, ending).await;
    }
    // Two records and two markers.
    assert_eq!(topic.offsets(0).await, (0, 4));
}

#[tokio::test]
async fn a_look_at_a_topic_waits_for_a_transaction_that_is_ending() {
    let services = Services::from_env();
    let topic = services.topic("harness", 1).await;
    let (bootstrap, name) = (services.kafka.clone(), topic.name().to_owned());
    let open = tokio::task::spawn_blocking(move || {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", bootstrap).set("transactional.id", unique("harness"));
        let producer: BaseProducer = settings.create().unwrap();
        producer.init_transactions(SOON).unwrap();
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::<str, str>::to(&name).payload("x")).unwrap();
        producer.flush(SOON).unwrap();
        producer
    });
    let producer = open.await.unwrap();
    let ending = tokio::task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_secs(2));
        producer.commit_transaction(SOON)
    });
    assert_eq!(arrivals(topic.bootstrap(), topic.name(), 1).await.len(), 1);
    ending.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_operator_changes_topics_and_offsets() {
    let services = Services::from_env();
    let topic = services.topic("harness", 1).await;
    let producer = Producer::new(&services.kafka);
    let records = vec![Record::default().payload("x").partition(0); 10];
    producer.send(topic.name(), &records).await;

    let group = tests::unique("group");
    assert_eq!(topic.committed(&group).await, [None]);
    topic.commit(&group, 0, 7).await;
    assert_eq!(topic.committed(&group).await, [Some(7)]);
    topic.delete_group(&group).await;
    assert_eq!(topic.committed(&group).await, [None]);

    topic.delete_before(0, 4).await;
    assert_eq!(topic.offsets(0).await, (4, 10));
    topic.grow(2).await;
    assert_eq!(topic.offsets(1).await, (0, 0));

    topic.delete().await;
    topic.create_again().await;
    assert_eq!(topic.offsets(0).await, (0, 0));
}

#[tokio::test]
async fn a_schema_is_alone_and_goes() {
    let services = Services::from_env();
    let (one, other) = (services.schema().await, services.schema().await);
    one.run("CREATE TABLE t (n bigint); INSERT INTO t VALUES (1), (2)").await;
    other.run("CREATE TABLE t (n bigint)").await;
    assert_eq!(one.number("SELECT count(*) FROM t").await, 2);
    assert_eq!(other.number("SELECT count(*) FROM t").await, 0);
    let count = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{}'", one.name());
    assert_eq!(other.number(&count).await, 1);
    drop(one);
    assert_eq!(other.number(&count).await, 0);
}

async fn connect_through(proxy: &Proxy, schema: &Schema, server: &str) -> PgConnection {
    PgConnection::connect(&schema.url_at(&proxy.url(server))).await.unwrap()
}

async fn commit_one(connection: &mut PgConnection) -> sqlx::Result<()> {
    let mut transaction = connection.begin().await?;
    sqlx::query("INSERT INTO t VALUES (1)").execute(&mut *transaction).await?;
    transaction.commit().await
}

#[tokio::test]
async fn a_lost_answer_leaves_the_commit_in_place_and_a_lost_request_does_not() {
    let services = Services::from_env();
    let schema = services.schema().await;
    schema.run("CREATE TABLE t (n bigint)").await;
    let upstream = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(upstream).await;

    let mut connection = connect_through(&proxy, &schema, &services.postgres).await;
    commit_one(&mut connection).await.unwrap();
    let trap = proxy.lose_answer_to(b"COMMIT", 1);
    commit_one(&mut connection).await.unwrap_err();
    assert_eq!(trap.hits(), 1);
    eventually(SOON, "the commit is there", async || {
        schema.number("SELECT count(*) FROM t").await == 2
    })
    .await;

    let trap = proxy.lose_request(b"COMMIT", 1);
    let mut connection = connect_through(&proxy, &schema, &services.postgres).await;
    commit_one(&mut connection).await.unwrap_err();
    assert_eq!(trap.hits(), 1);
    let open =
        "SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND pid <> pg_backend_pid()";
    eventually(SOON, "the server has let go", async || schema.number(open).await == 0).await;
    assert_eq!(schema.number("SELECT count(*) FROM t").await, 2);
}

#[tokio::test]
async fn a_proxy_delays_loses_cuts_and_heals() {
    let services = Services::from_env();
    let schema = services.schema().await;
    let upstream = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(upstream).await;
    let mut connection = connect_through(&proxy, &schema, &services.postgres).await;

    proxy.delay(Duration::from_millis(100));
    let start = std::time::Instant::now();
    connection.ping().await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());

    proxy.heal();
    connection.ping().await.unwrap();
    proxy.lose_answers();
    let silence = tokio::time::timeout(Duration::from_millis(300), connection.ping()).await;
    silence.unwrap_err();

    proxy.cut();
    PgConnection::connect(&proxy.url(&services.postgres)).await.unwrap_err();
    proxy.heal();
    connect_through(&proxy, &schema, &services.postgres).await.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_to_a_frozen_replica_loses_commits() {
    let primary = OwnPostgres::start().await;
    let schema = primary.schema().await;
    schema.run("CREATE TABLE t (n bigint); INSERT INTO t VALUES (1)").await;
    let replica = primary.replica().await;
    replica.catch_up_with(&primary).await;
    replica.freeze().await;
    schema.run("INSERT INTO t VALUES (2), (3)").await;
    primary.stop(StopMode::Immediate);
    replica.promote().await;

    let url = schema.url_at(&replica.url());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(&mut connection).await.unwrap();
    assert_eq!(rows, 1);
    sqlx::query("INSERT INTO t VALUES (4)").execute(&mut connection).await.unwrap();

    primary.start_again();
    assert_eq!(schema.number("SELECT count(*) FROM t").await, 3, "the old primary has them all");
}

#[tokio::test]
async fn a_killed_broker_comes_back_with_its_records_behind_a_proxy() {
    let (mut kafka, proxy) = OwnKafka::start_behind_proxy().await;
    assert_eq!(kafka.address(), proxy.address());
    let topic = kafka.topic("harness", 1).await;
    let producer = Producer::new(&kafka.address());
    let record = Record::default().payload("x").partition(0);
    producer.send(topic.name(), std::slice::from_ref(&record)).await;
    kafka.kill();
    kafka.start_again().await;
    assert_eq!(producer.send(topic.name(), &[record]).await, [(0, 1)]);
}

#[tokio::test]
async fn a_worker_is_frozen_woken_and_killed() {
    let script = "echo started; while sleep 0.02; do echo beat; done";
    let mut worker = Worker::spawn(Command::new("sh").args(["-c", script]));
    worker.printed(SOON, "beat").await;
    worker.pause();
    // The signal may find it between two beats; after that it prints nothing.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let frozen = worker.log().len();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(worker.log().len(), frozen);
    worker.resume();
    eventually(SOON, "it goes on", async || worker.log().len() > frozen).await;
    worker.kill();
    assert!(!worker.running());

    let mut worker = Worker::spawn(Command::new("sleep").arg("60"));
    worker.terminate();
    assert!(!worker.ended(SOON).await.success());
}
