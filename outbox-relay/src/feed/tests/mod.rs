//! What a feed has to do with rows that wait for another attempt, whatever the database.

mod scenarios;
#[cfg(feature = "postgres")]
mod services;
#[cfg(feature = "postgres")]
mod snapshot;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "postgres")]
pub(super) use services::session;

use std::time::Duration;

use uuid::Uuid;

use super::flow::{Read as _, SqlClient};
use crate::port::{
    FailedRows, Measurements, Overviews, Retention, Rounds, Row, RowFailure, RowId, RowQuery,
    Schema, Turn, TurnAnswer, TurnRequest,
};

/// A look from the start that finds all rows of a test.
const LOOK: RowQuery =
    RowQuery { window: 100, events_max: 100, bytes_max: 1 << 20, above: 0, few: true, aside: true };

/// A database, and what tests say to it by hand.
trait Tested: SqlClient + Rounds + FailedRows + Overviews + Measurements + Retention + Schema {
    /// A new id.
    const ID: &'static str;
    /// A minute ago.
    const PAST: &'static str;
    /// In an hour.
    const FUTURE: &'static str;
    /// The latest and the earliest time that a column holds.
    const ENDS: [&'static str; 2];
}

/// An outbox of its own, with the turn at it.
struct Place<F: Tested> {
    session: F::Session,
    turn: Turn,
}

impl<F: Tested> Place<F> {
    async fn new(mut session: F::Session) -> Self {
        F::migrate(&mut session).await.unwrap();
        let turn = take_turn::<F>(&mut session).await;
        Self { session, turn }
    }

    /// One statement.
    async fn run(&mut self, sql: &str) {
        let sql: &'static str = Box::leak(sql.to_owned().into_boxed_str());
        if let Err(error) = F::execute(&mut self.session, sql, &[]).await {
            panic!("{error}: {sql}");
        }
    }

    /// The one number that a query answers.
    async fn number(&mut self, sql: &str) -> i64 {
        let sql: &'static str = Box::leak(sql.to_owned().into_boxed_str());
        match F::fetch_one(&mut self.session, sql, &[]).await {
            Ok(row) => row.at(0).unwrap(),
            Err(error) => panic!("{error}: {sql}"),
        }
    }

    /// How many rows are like this.
    async fn count(&mut self, like: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM outbox_events WHERE {like}")).await
    }

    /// Rows of these aggregates, in this order.
    async fn append(&mut self, aggregates: &[&str]) {
        for aggregate in aggregates {
            self.run(&format!(
                "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id)
                 VALUES ({}, 'Paid', 'Order', '{aggregate}')",
                F::ID
            ))
            .await;
        }
    }

    /// What a look finds.
    async fn unsent(&mut self) -> Vec<Row> {
        F::unsent(&mut self.session, LOOK).await.unwrap().rows
    }

    async fn due(&mut self) -> Vec<Row> {
        F::due(&mut self.session, 100, 1 << 20).await.unwrap()
    }

    async fn next_due(&mut self) -> Option<Duration> {
        F::next_due(&mut self.session).await.unwrap()
    }

    /// The time of all that waits has come.
    async fn pass_time(&mut self) {
        let sql =
            format!("UPDATE outbox_events SET retry_at = {} WHERE retry_at IS NOT NULL", F::PAST);
        self.run(&sql).await;
    }

    /// The row of a number.
    async fn id(&mut self, seq: i64) -> RowId {
        let all = self.unsent().await;
        all.iter().find(|row| row.id.seq == seq).expect("it is unsent").id
    }
}

async fn take_turn<F: Tested>(session: &mut F::Session) -> Turn {
    let lease = Duration::from_mins(1);
    let request = TurnRequest { holder: "me", lease, token: Uuid::new_v4(), silent: None };
    match F::take_turn(session, request).await.unwrap() {
        TurnAnswer::Taken(turn) => turn,
        TurnAnswer::Held(held) => panic!("{held:?}"),
    }
}

/// A row that could not be delivered.
fn failure(id: RowId, attempts: u32, retry_after: Option<Duration>) -> RowFailure {
    let (event, error) = (String::new(), "503".into());
    RowFailure { id, event, error, waits_for: None, attempts, retry_after }
}

fn seqs(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.id.seq).collect()
}
