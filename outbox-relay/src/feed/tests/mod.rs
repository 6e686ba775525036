//! What a feed does with rows that cannot go now, on each database.

mod decisions;
#[cfg(feature = "postgres")]
mod plans;
mod scenarios;
#[cfg(feature = "postgres")]
mod services;
#[cfg(feature = "postgres")]
mod snapshot;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::time::Duration;

use uuid::Uuid;

use super::flow::{Read as _, SqlClient};
use crate::port::{
    Conclusion, FailedRows, Measurements, Overviews, Park, ParkState, Retention, Rounds, Row,
    RowKey, RowQuery, Schema, SeatChoice, Shards, Stored, Turn, TurnAnswer, TurnRequest,
};

const HOUR: Duration = Duration::from_hours(1);

/// A read from the start that finds all rows of a test.
const LOOK: RowQuery =
    RowQuery { floor: 0, read_to: 0, shards: Shards::ALL, rows_max: 100, bytes_max: 1 << 20 };

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

    /// What a read finds.
    async fn unsent(&mut self) -> Vec<Row> {
        F::unsent(&mut self.session, LOOK).await.unwrap().rows
    }

    /// What can be claimed of a destination.
    async fn claim(&mut self, destination: &str) -> Vec<Row> {
        let claimed =
            F::claim(&mut self.session, (self.turn, Shards::ALL), destination, 100, 1 << 20).await;
        claimed.unwrap().expect("the turn is ours")
    }

    /// As if the memory of the turn were lost.
    async fn forget(&mut self) {
        F::end_claims(&mut self.session, self.turn).await.unwrap();
    }

    /// When the first row of the destination of these tests may go.
    async fn next_due(&mut self) -> Option<Duration> {
        let due = F::due_destinations(&mut self.session, self.turn, Shards::ALL).await.unwrap();
        due.into_iter().find(|due| due.destination == SHOP).map(|due| due.after)
    }

    /// The time of all that waits has come.
    async fn pass_time(&mut self) {
        let sql = format!("UPDATE outbox_parked SET due_at = {} WHERE due_at IS NOT NULL", F::PAST);
        self.run(&sql).await;
    }

    async fn id(&mut self, seq: i64) -> RowKey {
        let sql = format!("SELECT event_id FROM outbox_events WHERE seq = {seq}");
        let sql: &'static str = Box::leak(sql.into_boxed_str());
        let row = F::fetch_one(&mut self.session, sql, &[]).await.unwrap();
        let event: Uuid = row.at(0).unwrap();
        RowKey { seq, event: event.as_u128() }
    }

    async fn store(&mut self, conclusion: &Conclusion) -> Stored {
        F::store(&mut self.session, self.turn, conclusion).await.unwrap()
    }

    async fn park(&mut self, parked: Vec<Park>) {
        let conclusion = Conclusion { parked, ..Conclusion::default() };
        assert_eq!(self.store(&conclusion).await, Stored::All);
    }

    async fn deliver(&mut self, delivered: &[RowKey]) -> Stored {
        let delivered = delivered.to_vec();
        self.store(&Conclusion { delivered, ..Conclusion::default() }).await
    }

    /// Rows of an aggregate, the first of which is in retry for an hour and the others behind it.
    async fn waits(&mut self, aggregate: &str, rows: usize) -> RowKey {
        let first = self.number("SELECT coalesce(max(seq), 0) + 1 FROM outbox_events").await;
        self.append(&vec![aggregate; rows]).await;
        let mut parked = Vec::new();
        for (place, seq) in (first..).take(rows).enumerate() {
            let id = self.id(seq).await;
            parked.push(match place {
                0 => retry(id, 1, HOUR),
                _ => parking(id, ParkState::Behind),
            });
        }
        let id = parked[0].key;
        self.park(parked).await;
        id
    }

    /// The parked rows by number and state.
    async fn states(&mut self) -> Vec<(i64, String)> {
        let sql = "SELECT seq, state FROM outbox_parked ORDER BY seq";
        let found = F::fetch_all(&mut self.session, sql, &[]).await.unwrap();
        found.iter().map(|row| (row.at(0).unwrap(), row.at(1).unwrap())).collect()
    }

    /// Parked rows that are like this.
    async fn parked(&mut self, like: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM outbox_parked WHERE {like}")).await
    }
}

/// Where parked rows of these tests go.
const SHOP: &str = "shop";

async fn take_turn<F: Tested>(session: &mut F::Session) -> Turn {
    let lease = Duration::from_mins(1);
    let (seats, token) = (SeatChoice::WithShards, Uuid::new_v4());
    let request = TurnRequest { holder: "me", lease, seats, token, silent: None };
    match F::take_turn(session, request).await.unwrap() {
        TurnAnswer::Taken(turn, _) => turn,
        other => panic!("{other:?}"),
    }
}

/// A row that is parked without an attempt.
fn parking(key: RowKey, state: ParkState) -> Park {
    Park {
        key,
        aggregate: "".into(),
        state,
        after: Duration::ZERO,
        destination: SHOP.to_owned(),
        attempts: 0,
        error: None,
        claimed: false,
    }
}

/// A row that could not be delivered.
fn retry(id: RowKey, attempts: u32, after: Duration) -> Park {
    let error = Some("503".to_owned());
    Park { after, attempts, error, ..parking(id, ParkState::Retry) }
}

/// States as [`Place::states`] answers them.
fn states(of: &[(i64, &str)]) -> Vec<(i64, String)> {
    of.iter().map(|(seq, state)| (*seq, (*state).to_owned())).collect()
}

fn seqs(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.id.seq).collect()
}
