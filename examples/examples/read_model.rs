//! A lesson on changes of tables as events: a read model of a table that another service owns.
//!
//! Where a service cannot be changed, Debezium's connector still tells which row is different
//! (`events.format = "debezium-raw"`, docs/formats.md). Each change is an event of its row: type `customers.updated`,
//! aggregate `public.customers/7`, payload `{"op", "before", "after"}`. So order is kept for each row, and a change that
//! the connector sends again, because it was killed before it wrote down where it is, has no second effect.
//!
//! Here a function stands for the connector, and writes records as it does. `cargo xtask debezium changes` does the same
//! with a real one, which is killed again and again, and so are the consumers.
//!
//! # What it prints
//!
//! ```text
//! 7 changes of customers are sent, and the last 5 of them again
//! each has had its effect once, in the order of its row
//! the read model has: 1 Ada (ada@example.org), 2 Grace (no mail)
//! ```

use examples::{Error, RunningConsumer, Services, configure, wait_until};
use inbox_consumer::{
    Event, Handler, HandlerResult, Routes, Tx, config::Format, testing::broker::Producer,
};
use outbox_core::Record;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::{PgPool, Postgres};

const TABLES: &str = "
    CREATE TABLE shown_customers (id bigint PRIMARY KEY, name text NOT NULL, mail text);
    CREATE TABLE effects (effect bigserial, customer bigint NOT NULL, op text NOT NULL)";

/// A change of a row of `customers`.
#[derive(Deserialize)]
struct Change {
    op: String,
    before: Option<Customer>,
    after: Option<Customer>,
}

/// A row. Of one that is gone the log may have the key alone, and a column may have been added later.
#[derive(Deserialize)]
struct Customer {
    id: i64,
    name: Option<String>,
    mail: Option<String>,
}

/// Makes the read model what the table is.
#[derive(Clone, Copy)]
struct Show;

impl Handler<Postgres> for Show {
    type Event = Change;

    async fn handle(&self, event: &Event<Change>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let Change { op, before, after } = &event.payload;
        if let Some(row) = after {
            sqlx::query(
                "INSERT INTO shown_customers (id, name, mail) VALUES ($1, $2, $3)
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, mail = excluded.mail",
            )
            .bind(row.id)
            .bind(&row.name)
            .bind(&row.mail)
            .execute(&mut *tx)
            .await?;
        } else if let Some(row) = before {
            sqlx::query("DELETE FROM shown_customers WHERE id = $1")
                .bind(row.id)
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query("INSERT INTO effects (customer, op) VALUES ($1, $2)")
            .bind(after.as_ref().or(before.as_ref()).map(|row| row.id))
            .bind(op)
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

/// What the connector sends of a change: `lsn` is the place in the database's log.
fn change(lsn: i64, op: &str, before: &Value, after: &Value) -> Record {
    let source = json!({
        "connector": "postgresql", "name": "shop", "ts_ms": 1_769_851_800_000_i64, "db": "shop", "schema": "public",
        "table": "customers", "txId": lsn / 10, "lsn": lsn,
    });
    let value = json!({ "before": before, "after": after, "source": source, "op": op, "ts_ms": 1 });
    let row = if after.is_null() { before } else { after };
    Record {
        key: Some(json!({ "id": row["id"] }).to_string().into()),
        headers: Vec::new(),
        payload: Some(value.to_string().into()),
        timestamp_ms: None,
    }
}

fn changes() -> Vec<Record> {
    let none = Value::Null;
    let row = |id: i64, name: &str| json!({ "id": id, "name": name });
    vec![
        change(100, "r", &none, &row(1, "Ada")),
        change(100, "r", &none, &row(3, "Bob")),
        change(110, "c", &none, &row(2, "Grace")),
        change(120, "u", &none, &row(3, "Robert")),
        // From here on the table has a column more.
        change(131, "u", &none, &json!({ "id": 1, "name": "Ada", "mail": "ada@example.org" })),
        change(132, "d", &json!({ "id": 3, "name": null, "mail": null }), &none),
        change(140, "u", &none, &json!({ "id": 2, "name": "Grace", "mail": null })),
    ]
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("customers").await?;
    let database = services.create_database("shown").await?;
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let mut config = configure("shown", &services.kafka, &topic, &database);
    config.events.format = Format::DebeziumRaw;
    inbox_consumer::migrate::<Postgres>(&config).await?;

    let producer = Producer::new(&services.kafka)?;
    let changes = changes();
    // The connector was killed, and begins again at the last place that it had written down.
    for record in changes.iter().chain(&changes[2..]) {
        producer.send(&topic, record).await?;
    }
    println!("7 changes of customers are sent, and the last 5 of them again");

    let types = ["read", "created", "updated", "deleted"];
    let on = |routes: Routes<Postgres>, done| routes.on(&format!("customers.{done}"), Show);
    let routes = types.into_iter().fold(Routes::default(), on);
    let running = RunningConsumer::start(config, routes).await?;
    wait_until("all 12 records are settled", || async {
        let settled = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
        Ok(sqlx::query_scalar::<_, i64>(settled).fetch_one(&pool).await? == 12)
    })
    .await?;
    running.stop().await?;

    let told: Vec<String> = sqlx::query_scalar(
        "SELECT customer || ' ' || string_agg(op, '' ORDER BY effect) FROM effects GROUP BY customer ORDER BY customer",
    )
    .fetch_all(&pool)
    .await?;
    assert_eq!(
        told,
        ["1 ru", "2 cu", "3 rud"],
        "one effect for each change, in the order of its row"
    );
    println!("each has had its effect once, in the order of its row");
    let shown: Vec<String> = sqlx::query_scalar(
        "SELECT format('%s %s (%s)', id, name, coalesce(mail, 'no mail')) FROM shown_customers ORDER BY id",
    )
    .fetch_all(&pool)
    .await?;
    println!("the read model has: {}", shown.join(", "));
    assert_eq!(shown, ["1 Ada (ada@example.org)", "2 Grace (no mail)"]);
    pool.close().await;
    services.clean_up().await
}
