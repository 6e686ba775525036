//! Which handler takes which type of event.
//!
//! One story: its files know each other.

mod attempt;
mod declared;
mod decoded_payloads;
mod each;
mod preparing;
mod schedule;
mod table;
mod versions;
mod whole;

#[cfg(all(test, feature = "postgres"))]
mod queue_services;
#[cfg(all(test, feature = "sqlite"))]
mod run_tests;
#[cfg(all(test, feature = "postgres"))]
mod services;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

use std::{any::Any, collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use inbox_store::internal::port::Sessions;
use outbox_core::{Decode, Json, Preparation, Upcasts};
use sqlx::Database;

pub use declared::{Declared, DeclaredMode, PayloadCodec};
pub use decoded_payloads::{DecodedPayloads, DecodedRun};
pub use preparing::CodecsStarted;
pub use schedule::Schedule;
pub use table::{RouteLookup, RouteTable};
pub use versions::{GapEnd, VersionPlace, VersionPolicy};

pub use crate::run_event::RunEvent;
use crate::{BatchHandler, Fault, Handler, Tx};
use declared::DeclaredRoute;
#[cfg(feature = "testing")]
pub use declared::gather_columns;
use each::Each;
use whole::Whole;

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// Every event was handled.
    Done,
    /// The payload of the event at `at` is not what its handler takes.
    Undecodable {
        /// Its index.
        at: usize,
        /// How many events before it were handled: all of them, or none for a batch handler.
        ran: usize,
        /// Why, without any of the payload.
        error: String,
    },
    /// What a codec needs is not there, and no event is at fault: all of it is to be rolled back.
    Unavailable(String),
    /// The handler failed.
    Failed(CallFailure),
}

/// Why a call of a handler failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallFailure {
    /// The index in the run of the event to blame, if it is known.
    pub at: Option<usize>,
    /// What it means; what the transaction saw has been taken into account.
    pub fault: Fault,
    /// The error, for people.
    pub error: String,
    /// The session is still busy with a statement, or nobody knows: close it hard.
    pub hung: bool,
}

/// A handler behind one virtual call and one box per run.
#[async_trait]
pub(crate) trait Route<DB: Database>: Send + Sync {
    /// The handler's type, for people.
    fn name(&self) -> &'static str;

    /// Its codec gets ready, before anything is read; `None`: it has none.
    fn start(&self) -> Option<Preparation<'_>> {
        None
    }

    /// What its codec fetches before this event can be decoded; `None`: nothing is missing.
    fn prepare(&self, _event: &RunEvent<'_>) -> Option<Preparation<'_>> {
        None
    }

    /// Why its handler cannot take this event, as far as that is known without calling it.
    fn refusal(&self, event: &RunEvent<'_>) -> Option<String>;

    /// A place for what it decodes before its turn; `None`: it decodes nothing before.
    fn payload_buffer(&self) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Decodes the event at this place of a batch into a buffer from [`payload_buffer`](Self::payload_buffer).
    fn decode(&self, _place: usize, _event: RunEvent<'_>, _into: &mut (dyn Any + Send)) {}

    /// Runs the handler on `run`, which is not empty. `deadline` is for each call of the handler.
    async fn run(
        &self,
        run: &[RunEvent<'_>],
        payloads: DecodedRun<'_>,
        tx: &mut Tx<'_, DB>,
        deadline: Duration,
    ) -> RunEnd;
}

enum Entry<DB: Database> {
    Handled(Registered<DB>),
    Ignored,
}

struct Registered<DB: Database> {
    route: Arc<dyn Route<DB>>,
    whole_run: bool,
    one_per_aggregate: bool,
}

impl<DB: Database> Entry<DB> {
    /// For the sentence about two registrations.
    fn describe(&self) -> String {
        match self {
            Self::Handled(registered) => format!("the handler `{}`", registered.route.name()),
            Self::Ignored => "`ignore`".to_owned(),
        }
    }
}

/// The handlers of a consumer by the type of event they take.
///
/// Payloads are JSON unless a codec is given. Types without a handler are parked, unless they are
/// [ignored](Self::ignore). Two registrations of one type are refused when the consumer starts.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use inbox_consumer::{BatchHandler, Event, Handler, HandlerResult, Routes, Tx};
/// use sqlx::Postgres;
///
/// # struct CreditAccount;
/// # impl Handler<Postgres> for CreditAccount {
/// #     type Event = i64;
/// #     async fn handle(&self, _: &Event<i64>, _: &mut Tx<'_, Postgres>) -> HandlerResult { Ok(()) }
/// # }
/// # struct CountVisits;
/// # impl BatchHandler<Postgres> for CountVisits {
/// #     type Event = i64;
/// #     async fn handle(&self, _: &[Event<i64>], _: &mut Tx<'_, Postgres>) -> HandlerResult { Ok(()) }
/// # }
/// fn routes() -> Routes<Postgres> {
///     Routes::default()
///         .on("OrderPaid", CreditAccount)
///         .on_batch("PageVisited", CountVisits)
///         .ignore("CartTouched")
/// }
/// # }
/// ```
pub struct Routes<DB: Database> {
    by_type: HashMap<String, Entry<DB>>,
    schedules: HashMap<String, Schedule>,
    versions: HashMap<String, VersionPolicy>,
    refused: Vec<String>,
    /// Those that the configuration declares, once more.
    declared: Vec<Arc<DeclaredRoute<DB>>>,
}

impl<DB: Database> Default for Routes<DB> {
    fn default() -> Self {
        Self {
            by_type: HashMap::new(),
            schedules: HashMap::new(),
            versions: HashMap::new(),
            refused: Vec::new(),
            declared: Vec::new(),
        }
    }
}

impl<DB: Database> fmt::Debug for Routes<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.by_type.iter().map(|(event_type, entry)| (event_type, entry.describe()));
        f.debug_map().entries(told).finish()
    }
}

impl<DB: Sessions> Routes<DB> {
    /// Gives events of `event_type` to `handler`, one at a time; payloads are JSON.
    #[must_use]
    pub fn on<H: Handler<DB>>(self, event_type: &str, handler: H) -> Self {
        self.on_with(event_type, Json, handler)
    }

    /// Gives events of `event_type` to `handler`, one at a time; `codec` decodes the payloads.
    #[must_use]
    pub fn on_with<C, H>(self, event_type: &str, codec: C, handler: H) -> Self
    where
        C: Decode<H::Event>,
        H: Handler<DB>,
    {
        let route = Arc::new(Each { handler, codec });
        self.add(
            event_type,
            Entry::Handled(Registered { route, whole_run: false, one_per_aggregate: false }),
        )
    }

    /// Gives events of `event_type` to `handler`, one at a time; `upcasts` bring payloads of older schema versions to the
    /// type that it takes.
    #[must_use]
    pub fn on_versions<C, H>(self, event_type: &str, upcasts: Upcasts<C>, handler: H) -> Self
    where
        Upcasts<C>: Decode<H::Event>,
        H: Handler<DB>,
    {
        self.on_with(event_type, upcasts, handler)
    }

    /// Gives runs of `event_type` to `handler`; `upcasts` bring payloads of older schema versions to the type that it
    /// takes.
    #[must_use]
    pub fn on_batch_versions<C, H>(self, event_type: &str, upcasts: Upcasts<C>, handler: H) -> Self
    where
        Upcasts<C>: Decode<H::Event>,
        H: BatchHandler<DB>,
    {
        self.on_batch_with(event_type, upcasts, handler)
    }

    /// Gives runs of `event_type` to `handler`; payloads are JSON.
    #[must_use]
    pub fn on_batch<H: BatchHandler<DB>>(self, event_type: &str, handler: H) -> Self {
        self.on_batch_with(event_type, Json, handler)
    }

    /// Gives runs of `event_type` to `handler`; `codec` decodes the payloads.
    #[must_use]
    pub fn on_batch_with<C, H>(self, event_type: &str, codec: C, handler: H) -> Self
    where
        C: Decode<H::Event>,
        H: BatchHandler<DB>,
    {
        let one_per_aggregate = handler.one_per_aggregate();
        let route = Arc::new(Whole { handler, codec });
        self.add(
            event_type,
            Entry::Handled(Registered { route, whole_run: true, one_per_aggregate }),
        )
    }

    /// Settles events of `event_type` without a handler. They are counted, not kept.
    #[must_use]
    pub fn ignore(self, event_type: &str) -> Self {
        self.add(event_type, Entry::Ignored)
    }

    /// Releases parked events of `event_type` by a schedule of their own instead of `[park]`'s.
    #[must_use]
    pub fn schedule(mut self, event_type: &str, schedule: Schedule) -> Self {
        if self.schedules.insert(event_type.to_owned(), schedule).is_some() {
            self.refused.push(format!(
                "events of type `{event_type}` have two schedules: remove one of them"
            ));
        }
        self
    }

    /// Looks at the versions of the aggregates of `event_type`; without this nobody does.
    #[must_use]
    pub fn versions(mut self, event_type: &str, policy: VersionPolicy) -> Self {
        if self.versions.insert(event_type.to_owned(), policy).is_some() {
            self.refused.push(format!(
                "events of type `{event_type}` have two version policies: remove one of them"
            ));
        }
        self
    }

    fn add(mut self, event_type: &str, entry: Entry<DB>) -> Self {
        if event_type.is_empty() {
            let told = entry.describe();
            self.refused.push(format!(
                "{told} is registered for an event type without a name: set the name of the type"
            ));
            return self;
        }
        if let Some(first) = self.by_type.get(event_type) {
            self.refused.push(format!(
                "events of type `{event_type}` are registered twice, with {} and with {}: remove \
                 one of them",
                first.describe(),
                entry.describe()
            ));
            return self;
        }
        self.by_type.insert(event_type.to_owned(), entry);
        self
    }

    /// The table for the pipeline, or the sentences on what is wrong with the registrations.
    #[doc(hidden)]
    pub fn freeze(self) -> Result<RouteTable<DB>, String> {
        if !self.refused.is_empty() {
            return Err(self.refused.join("; "));
        }
        if self.by_type.is_empty() {
            return Err(
                "no event type has a handler: register one with `routes.on(\"…\", …)`, or declare one in \
                 [[handlers]] of the configuration"
                    .into(),
            );
        }
        let handled =
            |event_type: &&String| matches!(self.by_type.get(*event_type), Some(Entry::Handled(_)));
        if let Some(event_type) = self.schedules.keys().find(|event_type| !handled(event_type)) {
            return Err(format!(
                "events of type `{event_type}` have a schedule, but no handler: correct the type, or \
                 remove the schedule"
            ));
        }
        if let Some(event_type) = self.versions.keys().find(|event_type| !handled(event_type)) {
            return Err(format!(
                "events of type `{event_type}` have a version policy, but no handler: correct the \
                 type, or remove the policy"
            ));
        }
        Ok(RouteTable::new(self))
    }
}
