//! What users implement: a handler for each type of event.

mod error;
mod event;

use std::future::Future;

use serde::de::DeserializeOwned;
use sqlx::Database;

pub(crate) use error::limit_text;
pub use error::panic_text;
pub use error::{Fault, HandlerError, HandlerResult};
pub use event::Event;

use crate::Tx;

/// Handles events of one type, one at a time.
///
/// What `handle` writes through `tx` commits together with the record that the event was handled:
/// once, or not at all. Write `async fn handle`, no macro is needed.
///
/// # What a handler has to know
///
/// - **It may run more than once for an event** (a crash, a conflict, a failure elsewhere in its
///   transaction); only the effects of the run that commits remain. `&self` is shared by all calls:
///   what a failed attempt leaves in it (a cache, a counter, a collection) is still there at the
///   next one. Keep results in the database, and in `self` only what is the same for every attempt:
///   settings, clients, pools.
/// - **Only what goes through `tx` happens exactly once.** A mail, an HTTP call, a message sent to
///   Kafka, a write through another connection happens again with every attempt, even when the
///   transaction is rolled back afterwards. Append an event to the outbox instead, or make the
///   receiver recognise the event's [`id`](Event::id).
/// - An error of a statement fails the event even if it is swallowed: see [`Tx`].
/// - An attempt has a deadline (30 seconds unless configured otherwise). After it the handler is
///   dropped and the connection is closed. Code that blocks its thread cannot be dropped: use
///   `tokio::task::spawn_blocking`. The transaction holds locks; do not wait for slow calls in it.
/// - A panic fails the attempt like an error.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Tx};
/// use serde::Deserialize;
/// use sqlx::Postgres;
///
/// #[derive(Deserialize)]
/// struct OrderPaid {
///     account: i64,
///     amount: i64,
/// }
///
/// /// Credits the account that an order was paid to.
/// struct CreditAccount;
///
/// impl Handler<Postgres> for CreditAccount {
///     type Event = OrderPaid;
///
///     async fn handle(
///         &self,
///         event: &Event<OrderPaid>,
///         tx: &mut Tx<'_, Postgres>,
///     ) -> HandlerResult {
///         if event.payload.amount < 0 {
///             return Err(HandlerError::reject("a payment is never negative"));
///         }
///         sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE id = $2")
///             .bind(event.payload.amount)
///             .bind(event.payload.account)
///             .execute(&mut *tx)
///             .await?;
///         Ok(())
///     }
/// }
/// # }
/// ```
///
/// A batch handler is registered with `on_batch`; `on` tells so:
///
/// ```compile_fail,E0277
/// use inbox_consumer::{BatchHandler, Event, HandlerResult, Routes, Tx};
/// use sqlx::Postgres;
///
/// struct Batch;
/// impl BatchHandler<Postgres> for Batch {
///     type Event = i64;
///     async fn handle(&self, _: &[Event<i64>], _: &mut Tx<'_, Postgres>) -> HandlerResult {
///         Ok(())
///     }
/// }
/// let routes = Routes::<Postgres>::default().on("OrderPaid", Batch);
/// ```
///
/// Futures move between threads: nothing that is not `Send` may live across an await.
///
/// ```compile_fail
/// use inbox_consumer::{Event, Handler, HandlerResult, Tx};
/// use sqlx::Postgres;
///
/// struct NotSend;
/// impl Handler<Postgres> for NotSend {
///     type Event = i64;
///     async fn handle(&self, _: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
///         let shared = std::rc::Rc::new(1);
///         sqlx::query("SELECT 1").execute(&mut *tx).await?;
///         drop(shared);
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle events on `{DB}`",
    label = "no `impl Handler<{DB}>`",
    note = "implement `Handler<{DB}>`, or register it with `Routes::on_batch` if it is a `BatchHandler`"
)]
pub trait Handler<DB: Database>: Send + Sync + 'static {
    /// What the payload decodes to.
    type Event: DeserializeOwned + Send + Sync + 'static;

    /// Handles one event on the open transaction.
    ///
    /// # Errors
    ///
    /// Whatever keeps the event from being handled: see [`HandlerError`].
    fn handle(
        &self,
        event: &Event<Self::Event>,
        tx: &mut Tx<'_, DB>,
    ) -> impl Future<Output = HandlerResult> + Send;
}

/// Handles a run: events of one type that can go together without any overtaking an earlier one of
/// its aggregate. For SQL that works on sets.
///
/// Everything said of [`Handler`] holds. The deadline is that of one attempt: it is for the whole
/// call, whatever the length of the run. After a failure that names no culprit by
/// [`HandlerError::at`] the run is repeated event by event, in slices of one.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use inbox_consumer::{BatchHandler, Event, HandlerResult, Tx};
/// use serde::Deserialize;
/// use sqlx::Postgres;
///
/// #[derive(Deserialize)]
/// struct OrderPaid {
///     account: i64,
///     amount: i64,
/// }
///
/// struct CreditAccounts;
///
/// impl BatchHandler<Postgres> for CreditAccounts {
///     type Event = OrderPaid;
///
///     async fn handle(
///         &self,
///         events: &[Event<OrderPaid>],
///         tx: &mut Tx<'_, Postgres>,
///     ) -> HandlerResult {
///         let paid = events.iter().map(|event| (event.payload.account, event.payload.amount));
///         let (accounts, amounts): (Vec<i64>, Vec<i64>) = paid.unzip();
///         sqlx::query(
///             "UPDATE accounts SET balance = balance + paid.amount
///              FROM (SELECT account, sum(amount)::bigint AS amount
///                    FROM unnest($1::bigint[], $2::bigint[]) AS t (account, amount)
///                    GROUP BY account) AS paid
///              WHERE id = paid.account",
///         )
///         .bind(accounts)
///         .bind(amounts)
///         .execute(&mut *tx)
///         .await?;
///         Ok(())
///     }
/// }
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle runs of events on `{DB}`",
    label = "no `impl BatchHandler<{DB}>`",
    note = "implement `BatchHandler<{DB}>`, or register it with `Routes::on` if it is a `Handler`"
)]
pub trait BatchHandler<DB: Database>: Send + Sync + 'static {
    /// What each payload decodes to.
    type Event: DeserializeOwned + Send + Sync + 'static;

    /// Handles a run, in the order given; it is never empty.
    ///
    /// # Errors
    ///
    /// Whatever keeps the run from being handled: see [`HandlerError`].
    fn handle(
        &self,
        events: &[Event<Self::Event>],
        tx: &mut Tx<'_, DB>,
    ) -> impl Future<Output = HandlerResult> + Send;

    /// Whether each aggregate may occur only once in a run. SQL needs that when it touches one row
    /// per aggregate and cannot touch a row twice: `INSERT … ON CONFLICT DO UPDATE` fails then, and
    /// `UPDATE … FROM` applies only one of the two. Runs become shorter. Asked once, when the
    /// handler is registered.
    fn one_per_aggregate(&self) -> bool {
        false
    }
}
