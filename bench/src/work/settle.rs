//! How the limits settle what waits, on one connection, statements prepared once.

use std::collections::HashSet;

use futures::future::{try_join, try_join_all};
use tokio_postgres::{Client, Error, Statement};
use uuid::Uuid;
use xtask::failure::{Explain as _, Outcome};

use super::record::{Deposited, Event};
use super::sums::Sums;
use super::{UPSERT, UPSERT_SUMS};
use crate::candidate::Candidate;
use crate::options::Order;
use crate::server::connected;

/// Claim and effect of one event. It is a transaction by itself.
const ALL_IN_ONE: &str = "WITH claimed AS (
        INSERT INTO inbox (event_id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING event_id)
    INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT $2, $3, 1, $4, 0 FROM claimed
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + 1,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + (excluded.last_sequence <> a.last_sequence + 1)::int";

/// The claim of a batch: the ids that nobody had claimed, in their order. Looking for all of them at once
/// is quicker than `ON CONFLICT`, which looks for each by itself; as in ours, the selection around $1 keeps
/// the planner from reading the whole table, and an id that somebody else claims in between is an error.
const CLAIM: &str = "INSERT INTO inbox (event_id) SELECT id FROM unnest($1::uuid[]) id
    WHERE id NOT IN (SELECT event_id FROM inbox WHERE event_id = ANY((SELECT $1)::uuid[]))
    RETURNING event_id";

/// The connection of a partition.
pub(super) struct Lane {
    way: Candidate,
    client: Client,
    claim: Statement,
    effect: Statement,
}

impl Lane {
    /// Connects and prepares.
    pub(super) async fn open(order: &Order) -> Outcome<Self> {
        let client = connected(&order.database).await?;
        let effect = match order.candidate {
            Candidate::LimitTx => ALL_IN_ONE,
            Candidate::LimitSet => UPSERT_SUMS,
            _ => UPSERT,
        };
        let doing = || "cannot prepare a statement".to_owned();
        let claim = client.prepare(CLAIM).await.explain(doing)?;
        let effect = client.prepare(effect).await.explain(doing)?;
        Ok(Self { way: order.candidate, client, claim, effect })
    }

    /// Settles events in their order: when it returns, they are committed.
    pub(super) async fn settle(&mut self, events: &[Event]) -> Result<(), Error> {
        if self.way == Candidate::LimitTx {
            for event in events {
                self.all_in_one(event).await?;
            }
            return Ok(());
        }
        let fresh = self.claim(events).await?;
        match self.way {
            Candidate::LimitAwaited => {
                for deposited in &fresh {
                    self.upsert(deposited).await?;
                }
                self.client.batch_execute("COMMIT").await
            }
            Candidate::LimitPipelined => {
                // Each statement is sent when its future is first polled, and that happens in order.
                let effects = try_join_all(fresh.iter().map(|deposited| self.upsert(deposited)));
                try_join(effects, self.client.batch_execute("COMMIT")).await.map(drop)
            }
            _ => {
                let effect = self.upsert_sums(Sums::of(fresh.iter()));
                try_join(effect, self.client.batch_execute("COMMIT")).await.map(drop)
            }
        }
    }

    async fn all_in_one(&self, event: &Event) -> Result<(), Error> {
        let Deposited { account, amount, sequence } = event.deposited;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&event.id, &account, &amount, &sequence];
        self.client.execute(&self.effect, &values).await.map(drop)
    }

    /// Begins a transaction and claims, in one round trip; returns what is to be done.
    async fn claim(&self, events: &[Event]) -> Result<Vec<Deposited>, Error> {
        let mut met = HashSet::with_capacity(events.len());
        let ids = events.iter().map(|event| event.id).filter(|id| met.insert(*id));
        let ids: Vec<Uuid> = ids.collect();
        let begin = self.client.batch_execute("BEGIN");
        let ((), rows) = try_join(begin, self.client.query(&self.claim, &[&ids])).await?;
        let mut claimed = rows.iter().map(|row| row.get::<_, Uuid>(0)).peekable();
        // The ids come back in the order they went in, so one walk along both finds them; of two
        // copies within the batch the first one meets the id. What is passed over shows in the end,
        // when effects are missing.
        let fresh = events.iter().filter(|event| claimed.next_if_eq(&event.id).is_some());
        Ok(fresh.map(|event| event.deposited).collect())
    }

    async fn upsert(&self, deposited: &Deposited) -> Result<(), Error> {
        let Deposited { account, amount, sequence } = deposited;
        self.client.execute(&self.effect, &[account, amount, sequence]).await.map(drop)
    }

    async fn upsert_sums(&self, sums: Sums) -> Result<(), Error> {
        let Sums { accounts, balances, events, last_sequences, disorder } = sums;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&accounts, &balances, &events, &last_sequences, &disorder];
        self.client.execute(&self.effect, &values).await.map(drop)
    }
}
