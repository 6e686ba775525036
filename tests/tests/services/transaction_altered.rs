//! Tables that are altered under prepared statements of handlers.

use inbox_consumer::{Ended, Event, Handler, HandlerResult, Routes, Tx};
use sqlx::{Postgres, Row as _};
use tests::{Count, SOON, Stage, effect, eventually};

/// Reads all columns of a table, whichever they are, before it writes its effect.
struct Reads {
    /// Go on after an error.
    swallows: bool,
}

impl Handler<Postgres> for Reads {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let row = sqlx::query("SELECT * FROM accounts").fetch_one(&mut *tx).await;
        if !self.swallows || row.is_ok() {
            assert!(row?.len() >= 2);
        }
        effect(event, tx).await
    }
}

/// `ALTER TABLE … ADD COLUMN` under `SELECT *`, while many sessions have it prepared.
async fn altered(swallows: bool) {
    let mut stage = Stage::set("altered", 4).await;
    stage.schema.run("CREATE TABLE accounts (id bigint, note text)").await;
    stage.schema.run("INSERT INTO accounts VALUES (1, 'x')").await;
    stage.config.retry.attempts_max = 1;
    let aggregates: Vec<String> = (0..16).map(|a| format!("a{a}")).collect();
    let running = stage.start(Routes::default().on("Counted", Reads { swallows })).await;
    for round in 1..=3 {
        for aggregate in &aggregates {
            stage.count(aggregate, round * 10 - 9, round * 10).await;
        }
        eventually(SOON, "all events", async || stage.effects().await == round * 160).await;
        stage.schema.run(&format!("ALTER TABLE accounts ADD COLUMN c{round} bigint")).await;
    }
    for aggregate in &aggregates {
        assert_eq!(stage.of(aggregate).await, (1..=30).collect::<Vec<_>>());
    }
    let counts = running.counters.read();
    assert_eq!((counts.failures, counts.outages, stage.parked("").await), (0, 0, 0), "{counts:?}");
    assert!(counts.conflicts >= 2, "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// "cached plan must not change result type" is no event's fault, and passes with its session.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_added_under_a_handlers_select_star_parks_nothing() {
    altered(false).await;
}

/// The same where the handler goes on after the error.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_added_under_a_handler_that_swallows_errors_parks_nothing() {
    altered(true).await;
}
