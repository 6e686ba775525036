//! Events appended to the outbox on PostgreSQL and SQLite: with the caller's transaction or not at all, in one
//! statement, in order, no larger than allowed, told to relays once.

use std::time::Duration;

use outbox_core::{
    Aggregate, AppendError, EVENT_BYTES_MAX, Envelope, EventId, Outbox, OutboxEvent, append,
    append_all,
    internal::{NOTIFY_CHANNEL, headers_from_json},
};
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::postgres::{PgListener, PgRow};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection as _, PgConnection, Row as _, SqliteConnection};
use tests::{Schema, Services, Topic};

/// What a relay reads: everything an event is made of.
const ALL: &str = "SELECT event_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at_ms, \
     schema_version, topic, headers, payload, bytes_max FROM outbox_events ORDER BY seq";

async fn postgres() -> (Schema, PgConnection) {
    let schema = Services::from_env().schema().await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    assert_eq!(outbox_core::migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);
    (schema, conn)
}

async fn sqlite() -> SqliteConnection {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    assert_eq!(outbox_core::migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);
    conn
}

/// The event of a row, as a relay makes it.
macro_rules! restored {
    ($row:expr, $row_type:ty, $id:ty) => {{
        let row: &$row_type = $row;
        let id: $id = row.get("event_id");
        let text = |name| row.get::<String, _>(name);
        let envelope = Envelope {
            event_id: EventId::from(<[u8; 16]>::try_from(id.as_ref() as &[u8]).unwrap()),
            source_id: None,
            event_type: text("event_type").into(),
            aggregate: Aggregate::new(text("aggregate_type"), text("aggregate_id")).unwrap(),
            aggregate_version: row.get("aggregate_version"),
            occurred_at_ms: row.get("occurred_at_ms"),
            schema_version: row.get("schema_version"),
            payload: row.get::<Option<Vec<u8>>, _>("payload").map(Into::into),
        };
        let topic = row.get::<Option<String>, _>("topic").map(Into::into);
        let headers = headers_from_json(&text("headers")).unwrap();
        OutboxEvent::restored(envelope, topic, headers).unwrap()
    }};
}

async fn on_postgres(conn: &mut PgConnection) -> Vec<OutboxEvent> {
    let rows = sqlx::query(ALL).fetch_all(conn).await.unwrap();
    rows.iter().map(|row| restored!(row, PgRow, uuid::Uuid)).collect()
}

async fn on_sqlite(conn: &mut SqliteConnection) -> Vec<OutboxEvent> {
    let rows = sqlx::query(ALL).fetch_all(conn).await.unwrap();
    rows.iter().map(|row| restored!(row, SqliteRow, Vec<u8>)).collect()
}

fn order(id: &str) -> Aggregate {
    Aggregate::new("Order", id).unwrap()
}

fn event(n: i64) -> OutboxEvent {
    OutboxEvent::new("OrderPaid", &order("1"), &n).unwrap()
}

/// Events of every form.
fn forms() -> Vec<OutboxEvent> {
    let full = event(1)
        .with_aggregate_version(-3)
        .with_schema_version(2)
        .with_occurred_at_ms(-1)
        .unwrap()
        .with_id(EventId::from([255; 16]))
        .with_topic("orders.v2")
        .unwrap()
        .with_correlation("checkout \"7\" \u{1f600}\\")
        .unwrap()
        .with_header("binary", vec![0, 255, 128])
        .unwrap()
        .with_header("binary", "nul \0 inside")
        .unwrap()
        .with_header("empty", "")
        .unwrap();
    let odd =
        Aggregate::new("'; DROP TABLE outbox_events; --", "{\"a\": [1]}\n\t\u{202e}").unwrap();
    vec![
        full.clone(),
        event(2).caused_by(&full),
        OutboxEvent::tombstone("Deleted", &order("2")).unwrap(),
        OutboxEvent::encoded("Empty", &order("3"), Vec::new().into()).unwrap(),
        OutboxEvent::encoded("Bytes", &odd, (0..=255).collect::<Vec<u8>>().into()).unwrap(),
        OutboxEvent::new("T".repeat(255), &order(&"i".repeat(1024)), "null").unwrap(),
    ]
}

/// F10: the id is made with the event, and everything comes back as it went in.
#[tokio::test]
async fn events_of_every_form_come_back_with_their_ids_in_their_order() {
    let (_schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    let forms = forms();
    append_all(&mut postgres, &forms).await.unwrap();
    append_all(&mut sqlite, &forms).await.unwrap();
    append(&mut postgres, &forms[0]).await.unwrap();
    append(&mut sqlite, &forms[0]).await.unwrap();
    let expected: Vec<_> = forms.iter().chain([&forms[0]]).cloned().collect();
    for found in [on_postgres(&mut postgres).await, on_sqlite(&mut sqlite).await] {
        assert_eq!(found, expected);
        let records =
            |events: &[OutboxEvent]| events.iter().map(OutboxEvent::record).collect::<Vec<_>>();
        assert_eq!(records(&found), records(&expected));
    }
}

#[tokio::test]
async fn an_event_is_there_if_and_only_if_its_transaction_is() {
    let (_schema, mut postgres) = postgres().await;
    let mut tx = postgres.begin().await.unwrap();
    append(&mut *tx, &event(1)).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = postgres.begin().await.unwrap();
    append(&mut *tx, &event(2)).await.unwrap();
    let mut part = tx.begin().await.unwrap();
    append_all(&mut *part, &[event(3), event(4)]).await.unwrap();
    part.rollback().await.unwrap();
    tx.commit().await.unwrap();
    drop(postgres.begin().await.unwrap());
    assert_eq!(payloads(&on_postgres(&mut postgres).await), ["2"]);

    let mut sqlite = sqlite().await;
    let mut tx = sqlite.begin().await.unwrap();
    append(&mut *tx, &event(1)).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = sqlite.begin_with("BEGIN IMMEDIATE").await.unwrap();
    append(&mut *tx, &event(2)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(payloads(&on_sqlite(&mut sqlite).await), ["2"]);
}

fn payloads(events: &[OutboxEvent]) -> Vec<String> {
    let text = |event: &OutboxEvent| {
        String::from_utf8(event.envelope().payload.as_deref().unwrap().to_vec()).unwrap()
    };
    events.iter().map(text).collect()
}

#[tokio::test]
async fn a_pooled_connection_and_a_transaction_of_a_pool_will_do() {
    let (schema, mut conn) = postgres().await;
    append(&mut *schema.pool().acquire().await.unwrap(), &event(1)).await.unwrap();
    let mut tx = schema.pool().begin().await.unwrap();
    append(&mut *tx, &event(2)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(payloads(&on_postgres(&mut conn).await), ["1", "2"]);
}

/// Counts statements, not rows.
const COUNTED: &str = "CREATE TABLE statements (rows bigint);
    CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO statements SELECT count(*) FROM written; RETURN NULL; END $$;
    CREATE TRIGGER counted AFTER INSERT ON outbox_events REFERENCING NEW TABLE AS written
        FOR EACH STATEMENT EXECUTE FUNCTION counted()";

#[tokio::test]
async fn thousands_of_events_are_one_statement_in_order() {
    let (schema, mut postgres) = postgres().await;
    schema.run(COUNTED).await;
    let mut sqlite = sqlite().await;
    let body = "x".repeat(200);
    let aggregate = |n: usize| order(&(n % 7).to_string());
    let events: Vec<_> = (0..10_000)
        .map(|n| OutboxEvent::new("Numbered", &aggregate(n), &(n, &body)).unwrap())
        .collect();
    append_all(&mut postgres, &[]).await.unwrap();
    append_all(&mut postgres, &events).await.unwrap();
    append_all(&mut sqlite, &events).await.unwrap();
    assert_eq!(schema.number("SELECT count(*) FROM statements").await, 1);
    assert_eq!(schema.number("SELECT sum(rows)::bigint FROM statements").await, 10_000);
    assert!(on_postgres(&mut postgres).await == events, "PostgreSQL has them in another order");
    assert!(on_sqlite(&mut sqlite).await == events, "SQLite has them in another order");
}

/// An event that takes exactly so many bytes.
fn of_size(bytes: usize) -> OutboxEvent {
    let of = |length: usize| {
        OutboxEvent::encoded("Large", &order("1"), vec![b'x'; length].into()).unwrap()
    };
    let event = of(bytes - of(0).size());
    assert_eq!(event.size(), bytes);
    event
}

/// E9
#[tokio::test]
async fn an_event_is_appended_up_to_the_limit_and_refused_above_it_by_a_sentence() {
    let (_schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    for limit in [5000, EVENT_BYTES_MAX, 3 << 20] {
        let outbox = Outbox::default().bytes_max(limit);
        for size in [limit - 1, limit] {
            outbox.append(&mut postgres, &of_size(size)).await.unwrap();
            outbox.append(&mut sqlite, &of_size(size)).await.unwrap();
        }
        let large = of_size(limit + 1);
        let expected = format!(
            "the event Large of Order/1 is {} bytes as a record, more than the allowed {limit}",
            limit + 1
        );
        for refused in [
            outbox.append(&mut postgres, &large).await,
            outbox.append_all(&mut postgres, &[event(1), large.clone()]).await,
            outbox.append(&mut sqlite, &large).await,
        ] {
            let sentence = refused.unwrap_err().to_string();
            assert!(sentence.starts_with(&expected), "{sentence}");
        }
    }
    assert_eq!(on_postgres(&mut postgres).await.len(), 6);
    assert_eq!(on_sqlite(&mut sqlite).await.len(), 6);
}

/// E9: what the default limit lets through, a broker with default settings takes.
#[tokio::test]
async fn the_largest_event_of_the_default_limit_fits_a_broker() {
    let services = Services::from_env();
    // A broker's own default.
    let limit = [("max.message.bytes", "1048588")];
    let topic = Topic::create(&services.kafka, "outbox", 1, &limit).await;
    let producer: FutureProducer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", topic.bootstrap())
        .set("message.max.bytes", "4000000")
        .set("enable.idempotence", "true")
        .create()
        .unwrap();
    let mut sent = Vec::new();
    for size in [EVENT_BYTES_MAX, EVENT_BYTES_MAX + (64 << 10)] {
        let (key, payload) = (b"1".to_vec(), of_size(size).record().payload.unwrap());
        let record = FutureRecord::to(topic.name()).key(&key).payload(&payload[..]);
        sent.push(producer.send(record, Duration::from_secs(20)).await.is_ok());
    }
    assert_eq!(sent, [true, false]);
}

/// F11: what other writers put into the table is bounded by the table itself.
#[tokio::test]
async fn the_table_refuses_rows_that_no_relay_could_ship() {
    let (_schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    let good = [
        "'\\x00112233445566778899aabbccddeeff'",
        "'T'",
        "'A'",
        "'1'",
        "NULL",
        "'[]'",
        "NULL",
        "DEFAULT",
    ];
    let cases: &[(usize, &str, &str)] = &[
        (0, "NULL", "event_id"),
        (1, "''", "event_type"),
        (1, "repeat('x', 256)", "event_type"),
        (2, "''", "aggregate_type"),
        (3, "''", "aggregate_id"),
        (3, "repeat('x', 1025)", "aggregate_id"),
        (4, "''", "topic"),
        (5, "NULL", "headers"),
        (5, "'[[\"a\", \"' || repeat('x', 8388609) || '\"]]'", "outbox_events_size"),
        (6, "convert_to(repeat('x', 1048576), 'UTF8')", "outbox_events_size"),
        (7, "0", "outbox_events_size"),
    ];
    for (at, value, named) in cases {
        let mut values = good;
        values[*at] = value;
        values[0] = if *at == 0 { value } else { "'00112233445566778899aabbccddeeff'" };
        let statement = insert(&values);
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut postgres).await;
        let error = error.expect_err(named).to_string();
        assert!(error.contains(named), "{value}: {error}");

        let length = |text: &str| text.replace("repeat('x', ", "hex(zeroblob(").replace(')', "))");
        let value = match *value {
            "convert_to(repeat('x', 1048576), 'UTF8')" => "zeroblob(1048576)".to_owned(),
            text if text.contains("repeat") => length(text),
            text => text.to_owned(),
        };
        let mut values = good.map(str::to_owned);
        values[0] = "x'00112233445566778899aabbccddeeff'".into();
        values[7] = "1048576".into();
        values[*at] = value.clone();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(insert(&values))).execute(&mut sqlite).await;
        let error = error.expect_err(named).to_string();
        assert!(error.contains(named), "{value}: {error}");
    }
}

/// Every list of headers that a relay reads goes in, by foreign SQL too; what is none is refused by name.
#[tokio::test]
async fn the_table_refuses_headers_that_no_relay_could_read() {
    let (_schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    let good = [
        "[ ]",
        "\n[\n  [\n    \"a\",\n    \"b\"\n  ]\n]\n",
        r#"[["a", "b"], ["a", null], ["ü", ""]]"#,
        r#"[["a",{"base64":"/wA="}],["a",{"base64":"\/wA="}]]"#,
        r#"[["a","\u0000 \"q\" [\"event_id\",1] \\"]]"#,
        r#"[["note","event_id"],["event-id","x"],["a","["],["b","]"]]"#,
    ];
    let bad = [
        "",
        "null",
        "{}",
        "no json",
        r#"{"a":"b"}"#,
        "[1]",
        r#"["a","b"]"#,
        r#"[["a"]]"#,
        r#"[["a",1]]"#,
        r#"[["a",true]]"#,
        r#"[["a",["b"]]]"#,
        r#"[["a","b","c"]]"#,
        r#"[["","b"]]"#,
        r#"[[1,"b"]]"#,
        r#"[["a",{"b":"x"}]]"#,
        r#"[["a",{}]]"#,
        r#"[["a",{"base64":1}]]"#,
        r#"[["a",{"base64":"","x":1}]]"#,
        r#"[["event_id","x"]]"#,
        r#"[["a","b"],["aggregate_id","x"]]"#,
        r#"[["a","b"]] x"#,
        "[[\"a\",\"b",
    ];
    let insert = |headers: &str| {
        let headers = format!("'{headers}'");
        insert(&[
            "'00112233445566778899aabbccddeeff'",
            "'T'",
            "'A'",
            "'1'",
            "NULL",
            &headers,
            "NULL",
            "1000",
        ])
    };
    for headers in good.into_iter().chain(bad) {
        let there = good.contains(&headers);
        let sql = insert(headers);
        let blob = sql.replacen("'00", "x'00", 1);
        let in_postgres = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut postgres).await;
        let in_sqlite = sqlx::raw_sql(sqlx::AssertSqlSafe(blob)).execute(&mut sqlite).await;
        for done in [in_postgres.map(drop), in_sqlite.map(drop)] {
            let said = done.map_err(|error| error.to_string());
            let named = said.as_ref().is_err_and(|said| said.contains("outbox_events_headers"));
            assert!(if there { said.is_ok() } else { named }, "{headers}: {said:?}");
        }
    }
    for events in [on_postgres(&mut postgres).await, on_sqlite(&mut sqlite).await] {
        assert_eq!(events.len(), good.len());
    }
}

fn insert(values: &[&str]) -> String {
    format!(
        "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, topic, headers, payload, \
         bytes_max) VALUES ({})",
        values.join(", ")
    )
}

/// Everything that can be wrong with an append, and what it says.
#[tokio::test]
async fn what_keeps_an_event_from_being_appended_is_said_in_a_sentence() {
    let (schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    let swallow = "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
        CREATE TRIGGER swallow BEFORE INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION swallow()";
    schema.run(swallow).await;
    let swallow =
        "CREATE TRIGGER swallow BEFORE INSERT ON outbox_events BEGIN SELECT RAISE(IGNORE); END";
    sqlx::raw_sql(swallow).execute(&mut sqlite).await.unwrap();
    for refused in [append(&mut postgres, &event(1)).await, append(&mut sqlite, &event(1)).await] {
        let sentence = refused.unwrap_err().to_string();
        assert!(
            sentence.contains("0 of 1 events were written to outbox_events; remove the"),
            "{sentence}"
        );
    }

    schema.run("DROP TABLE outbox_events").await;
    sqlx::raw_sql("DROP TABLE outbox_events").execute(&mut sqlite).await.unwrap();
    for refused in [append(&mut postgres, &event(1)).await, append(&mut sqlite, &event(1)).await] {
        let error = refused.unwrap_err();
        assert!(matches!(error, AppendError::NoTable(_)), "{error:?}");
        let sentence = error.to_string();
        assert!(sentence.contains("no outbox table") && sentence.contains("migrate"), "{sentence}");
    }

    let mut tx = postgres.begin().await.unwrap();
    let failed = sqlx::raw_sql("SELECT 1 / 0").execute(&mut *tx).await;
    failed.unwrap_err();
    let error = append(&mut *tx, &event(1)).await.unwrap_err();
    assert!(matches!(error, AppendError::Database(_)), "{error:?}");
    assert!(error.to_string().starts_with("the outbox refused the events: "), "{error}");
}

/// As the documents of before `deliver_after` and `dedup_key` have it: services go on with it.
const PLAIN: &str = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, headers, payload)
    VALUES ($1, 'OrderPaid', 'Order', '1', 3, 1767323045678, '[[\"correlation_id\", \"checkout-1\"]]', $2)";
const DELIVERY: &str = "SELECT count(*) FROM outbox_events WHERE parked_at IS NULL
    AND deliver_after IS NULL AND dedup_key IS NULL";

#[tokio::test]
async fn inserts_of_before_the_columns_of_delivery_go_on_working() {
    let (schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    for n in 1..=2_u8 {
        let (id, payload) = ([n; 16], vec![b'0' + n]);
        let row = sqlx::query(PLAIN).bind(uuid::Uuid::from_bytes(id)).bind(&payload);
        row.execute(&mut postgres).await.unwrap();
        let row = sqlx::query(PLAIN).bind(id.to_vec()).bind(payload);
        row.execute(&mut sqlite).await.unwrap();
    }
    for events in [on_postgres(&mut postgres).await, on_sqlite(&mut sqlite).await] {
        assert_eq!(payloads(&events), ["1", "2"]);
    }
    assert_eq!(schema.number(DELIVERY).await, 2);
    let plain: i64 = sqlx::query_scalar(DELIVERY).fetch_one(&mut sqlite).await.unwrap();
    assert_eq!(plain, 2);
}

/// The notifications that have arrived when one of this table's own has.
async fn heard(listener: &mut PgListener, schema: &Schema) -> usize {
    let oid = schema.number("SELECT 'outbox_events'::regclass::oid::bigint").await.to_string();
    // What was committed before has been sent before.
    schema.run("SELECT pg_notify('outbox_events', 'end of ' || current_schema())").await;
    let end = format!("end of {}", schema.name());
    let mut count = 0;
    loop {
        let said = listener.recv().await.unwrap();
        if said.payload() == end {
            return count;
        }
        count += usize::from(said.payload() == oid);
    }
}

#[tokio::test]
async fn a_transaction_wakes_relays_once_however_much_it_appends_and_only_if_it_commits() {
    let (schema, mut conn) = postgres().await;
    let mut listener = PgListener::connect(&schema.url()).await.unwrap();
    listener.listen(NOTIFY_CHANNEL).await.unwrap();

    let mut tx = conn.begin().await.unwrap();
    for n in 0..5 {
        append(&mut *tx, &event(n)).await.unwrap();
    }
    append_all(&mut *tx, &[event(5), event(6)]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(heard(&mut listener, &schema).await, 1);

    let mut tx = conn.begin().await.unwrap();
    append(&mut *tx, &event(7)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(heard(&mut listener, &schema).await, 0, "nothing is there");

    Outbox::default().notify(false).append(&mut conn, &event(8)).await.unwrap();
    assert_eq!(heard(&mut listener, &schema).await, 0, "it is switched off");

    let (_other, mut elsewhere) = postgres().await;
    append(&mut elsewhere, &event(9)).await.unwrap();
    assert_eq!(heard(&mut listener, &schema).await, 0, "another outbox is not ours");
}

/// Of who inserts by plain SQL, and knows nothing of relays.
#[tokio::test]
async fn with_the_trigger_each_transaction_that_inserts_wakes_relays_once() {
    const TWO: &str =
        "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id)
        SELECT gen_random_uuid(), 'OrderPaid', 'Order', '1' FROM generate_series(1, 2)";
    let (schema, mut conn) = postgres().await;
    let mut listener = PgListener::connect(&schema.url()).await.unwrap();
    listener.listen(NOTIFY_CHANNEL).await.unwrap();
    schema.run(TWO).await;
    assert_eq!(heard(&mut listener, &schema).await, 0, "it is not there by itself");

    for _ in 0..2 {
        outbox_core::set_notify_trigger(&mut conn, true).await.unwrap();
    }
    for _ in 0..3 {
        schema.run(&format!("BEGIN; {TWO}; SAVEPOINT s; {TWO}; RELEASE s; {TWO}; COMMIT")).await;
    }
    assert_eq!(heard(&mut listener, &schema).await, 3, "one for each transaction");
    let mut tx = conn.begin().await.unwrap();
    append(&mut *tx, &event(1)).await.unwrap();
    append_all(&mut *tx, &[event(2), event(3)]).await.unwrap();
    sqlx::query(TWO).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(heard(&mut listener, &schema).await, 1, "that of `append` is the same");
    schema.run(&format!("BEGIN; {TWO}; ROLLBACK")).await;
    schema.run("UPDATE outbox_events SET sent_at = now()").await;
    assert_eq!(heard(&mut listener, &schema).await, 0, "nothing is new");

    for _ in 0..2 {
        outbox_core::set_notify_trigger(&mut conn, false).await.unwrap();
    }
    schema.run(TWO).await;
    assert_eq!(heard(&mut listener, &schema).await, 0, "it is removed");
    for (is_there, expected) in [(true, 1), (false, 0)] {
        schema.run(outbox_core::print_notify_trigger::<sqlx::Postgres>(is_there).unwrap()).await;
        schema.run(TWO).await;
        assert_eq!(heard(&mut listener, &schema).await, expected, "as it is printed");
    }
    assert_eq!(outbox_core::print_notify_trigger::<sqlx::Sqlite>(true), None);
}
