//! A lesson on a service that is not written in Rust, and appends its events by plain SQL.
//!
//! ```text
//! pay.py ─▶ orders + outbox_events ─▶ relay ─▶ Kafka ─▶ consumer ─▶ notes
//!           (one transaction)  │        ▲
//!                              └trigger─┘
//! ```
//!
//! The service is `examples/plain_sql/pay.py`. It pays each order, says so, and asks for a review three seconds
//! later, in one transaction. It is called twice for each order, as payment providers do: the dedup key leaves the
//! second events out. It knows nothing of relays: the trigger wakes them, so that no event waits for a relay's next
//! look. docs/outbox-table.md tells what its INSERT may say.
//!
//! It needs Python 3 with `venv`, and gets psycopg from PyPI.
//!
//! # What it prints
//!
//! ```text
//! pay.py has paid 5 orders: 10 events are new
//! pay.py has paid 5 orders: 0 events are new
//! each payment was sent within five seconds, though the relay looks every twenty
//! each payment is noted once, with the headers that the service gave it
//! each review is asked for once, and not before its time
//! ```

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use examples::{Error, FOLDER, RunningConsumer, Services, configure, wait_until};
use inbox_consumer::{Event, Handler, HandlerResult, Routes, Tx};
use outbox_relay::Relay;
use serde_json::Value;
use sqlx::{PgPool, Postgres};
use tokio::sync::oneshot;

const ORDERS: &str =
    "CREATE TABLE orders (id bigint PRIMARY KEY, amount bigint NOT NULL, paid boolean NOT NULL DEFAULT false);
    INSERT INTO orders (id, amount) SELECT n, 10 * n FROM generate_series(1, 5) n";

const NOTES: &str = "CREATE TABLE notes (event_type text, about text, correlation text, signature bytea, payload text,
    at timestamptz NOT NULL DEFAULT clock_timestamp())";

/// Writes down what it is told.
struct Note;

impl Handler<Postgres> for Note {
    type Event = Value;

    async fn handle(&self, event: &Event<Value>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query(
            "INSERT INTO notes (event_type, about, correlation, signature, payload) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(event.event_type())
        .bind(event.aggregate().to_string())
        .bind(event.header("correlation_id").map(String::from_utf8_lossy))
        .bind(event.header("signature"))
        .bind(event.payload.to_string())
        .execute(&mut *tx)
        .await?;
        Ok(())
    }
}

/// Python with the driver, in a folder of its own.
struct Python(PathBuf);

impl Python {
    fn install() -> Result<Self, Error> {
        let python = Self(env::temp_dir().join(format!("inbox-plain-sql-{}", std::process::id())));
        println!("installing psycopg");
        run(Command::new("python3").args(["-m", "venv"]).arg(&python.0))?;
        run(Command::new(python.0.join("bin/pip")).args([
            "install",
            "--quiet",
            "psycopg[binary]==3.3.9",
        ]))?;
        Ok(python)
    }

    /// Runs the service; answers what it says.
    fn pay(&self, database: &str) -> Result<String, Error> {
        let script = Path::new(FOLDER).join("plain_sql/pay.py");
        run(Command::new(self.0.join("bin/python")).arg(script).env("DATABASE_URL", database))
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output = output.map_err(|error| Error::new(format!("cannot run {program}: {error}")))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(said(&output.stdout));
    }
    Err(Error::new(format!(
        "{program} failed (Debian's packages python3-venv and python3-pip are needed): {}",
        said(&output.stderr)
    )))
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let python = Python::install()?;
    let topic = services.create_topic("paid").await?;
    let orders = services.create_database("orders").await?;
    let notes = services.create_database("notes").await?;

    // The tables of the service, its outbox, and the trigger: `outbox-relay migrate --notify-trigger on`.
    let order_pool = PgPool::connect(&orders).await?;
    sqlx::raw_sql(ORDERS).execute(&order_pool).await?;
    let mut connection = order_pool.acquire().await?;
    outbox_core::migrate(&mut *connection).await?;
    outbox_core::set_notify_trigger(&mut *connection, true).await?;
    drop(connection);

    // A relay that seldom looks by itself.
    let mut config = outbox_relay::config::Config::new(&services.kafka, orders.as_str());
    config.kafka.topic = topic.clone();
    config.wake.poll_interval = Duration::from_secs(20);
    let relay = Relay::builder(config).build().await?;
    let (end_relay, ending) = oneshot::channel::<()>();
    let relay = tokio::spawn(relay.run(async { _ = ending.await }));

    // Who is told.
    let note_pool = PgPool::connect(&notes).await?;
    sqlx::raw_sql(NOTES).execute(&note_pool).await?;
    let config = configure("notes", &services.kafka, &topic, &notes);
    inbox_consumer::migrate::<Postgres>(&config).await?;
    let routes = Routes::default().on("OrderPaid", Note).on("ReviewAsked", Note);
    let consumer = RunningConsumer::start(config, routes).await?;
    let turn = "SELECT count(owner) > 0 FROM outbox_relays";
    wait_until("a relay has the turn", || async {
        sqlx::query_scalar(turn).fetch_one(&order_pool).await
    })
    .await?;

    for expected in ["10", "0"] {
        let new = python.pay(&orders)?;
        println!("pay.py has paid 5 orders: {new} events are new");
        assert_eq!(new, expected);
    }
    let count = async |sql: &'static str| -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(sql).fetch_one(&note_pool).await
    };
    wait_until("five payments", || async {
        Ok(count("SELECT count(*) FROM notes WHERE event_type = 'OrderPaid'").await? == 5)
    })
    .await?;
    let late: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM outbox_events WHERE event_type = 'OrderPaid'
         AND coalesce(sent_at, now()) > created_at + interval '5 seconds'",
    )
    .fetch_one(&order_pool)
    .await?;
    assert_eq!(late, 0, "the trigger wakes the relay");
    println!("each payment was sent within five seconds, though the relay looks every twenty");
    let paid: Vec<(String, String, Vec<u8>, String)> = sqlx::query_as(
        "SELECT about, correlation, signature, payload FROM notes WHERE event_type = 'OrderPaid' ORDER BY about",
    )
    .fetch_all(&note_pool)
    .await?;
    for (n, (about, correlation, signature, payload)) in (1..).zip(paid) {
        assert_eq!((about, correlation), (format!("Order/{n}"), format!("checkout-{n}")));
        assert_eq!((signature, payload), (vec![255, 0], format!(r#"{{"amount":{}}}"#, 10 * n)));
    }
    println!("each payment is noted once, with the headers that the service gave it");

    wait_until("five reviews", || async {
        Ok(count("SELECT count(*) FROM notes WHERE event_type = 'ReviewAsked'").await? >= 5)
    })
    .await?;
    // Both by the clock of one server.
    let asked: Vec<(String, f64)> = sqlx::query_as(
        "SELECT about, extract(epoch FROM at)::float8 FROM notes WHERE event_type = 'ReviewAsked' ORDER BY about",
    )
    .fetch_all(&note_pool)
    .await?;
    let due: Vec<(String, f64)> = sqlx::query_as(
        "SELECT 'Review/' || aggregate_id, extract(epoch FROM deliver_after)::float8 FROM outbox_events
         WHERE event_type = 'ReviewAsked' ORDER BY 1",
    )
    .fetch_all(&order_pool)
    .await?;
    assert_eq!((asked.len(), due.len()), (5, 5));
    for ((about, at), (review, due)) in asked.into_iter().zip(due) {
        assert!(about == review && at >= due, "{about} at {at}, and {review} is due at {due}");
    }
    println!("each review is asked for once, and not before its time");

    consumer.stop().await?;
    let _ = end_relay.send(());
    relay.await?;
    order_pool.close().await;
    note_pool.close().await;
    services.clean_up().await
}
