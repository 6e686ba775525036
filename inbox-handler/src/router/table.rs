//! The routes as the pipeline asks for them: by type once per delivery, by number once per run.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use inbox_engine::internal::Kind;
use inbox_store::internal::port::Sessions;
use sqlx::Database;

use super::{
    DeclaredRoute, DecodedRun, Entry, Registered, Route, Routes, RunEnd, RunEvent, Schedule,
    VersionPolicy, attempt,
};
use crate::Tx;

/// What is known of an event type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteLookup {
    /// It has a handler: `kind.route` is the number for `RouteTable::route`.
    Route(Kind),
    /// It is settled without one.
    Ignored,
    /// Nobody said anything about it.
    Unknown,
}

/// The routes, numbered.
pub struct RouteTable<DB: Database> {
    by_type: HashMap<Box<str>, RouteLookup>,
    routes: Vec<Arc<dyn Route<DB>>>,
    schedules: HashMap<String, Schedule>,
    /// By number; nothing where no route has one.
    versions: Vec<Option<VersionPolicy>>,
    /// Those whose statement the database looks at before the start.
    pub(super) declared: Vec<Arc<DeclaredRoute<DB>>>,
}

impl<DB: Database> RouteTable<DB> {
    pub(super) fn new(routes: Routes<DB>) -> Self {
        let Routes { by_type: entries, schedules, mut versions, declared, .. } = routes;
        // Sorted, so that the numbers are the same in every process.
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let by_type = HashMap::with_capacity(entries.len());
        let (routes, policies) = (Vec::new(), Vec::new());
        let mut table = Self { by_type, routes, schedules, versions: policies, declared };
        let versioned = !versions.is_empty();
        for (event_type, entry) in entries {
            let lookup = table.number(entry);
            if versioned && matches!(lookup, RouteLookup::Route(_)) {
                table.versions.push(versions.remove(&event_type));
            }
            table.by_type.insert(event_type.into(), lookup);
        }
        table
    }

    /// Gives the entry its number, if it needs one.
    fn number(&mut self, entry: Entry<DB>) -> RouteLookup {
        let Entry::Handled(registered) = entry else { return RouteLookup::Ignored };
        // More than u32::MAX types do not fit into memory; `u32::MAX` itself is the pipeline's.
        let route = u32::try_from(self.routes.len()).unwrap_or(u32::MAX);
        self.routes.push(registered.route);
        let Registered { whole_run, one_per_aggregate, .. } = registered;
        RouteLookup::Route(Kind { route, whole_run, one_per_aggregate })
    }

    /// What is known of `event_type`. Allocates nothing.
    pub fn lookup(&self, event_type: &str) -> RouteLookup {
        self.by_type.get(event_type).copied().unwrap_or(RouteLookup::Unknown)
    }

    /// What to do about events of a type that nobody said anything about: in code, or in the configuration where that
    /// has all handlers.
    pub fn remedy(&self) -> &'static str {
        let ignored = self.by_type.len() > self.routes.len();
        if ignored || self.declared.len() < self.routes.len() {
            "register one, or name the type with `routes.ignore(..)`"
        } else {
            "declare one in `[[handlers]]`, or set `events.unknown_type`"
        }
    }

    /// The route of a number that [`lookup`](Self::lookup) gave out; others are a bug.
    pub(super) fn route(&self, number: u32) -> &dyn Route<DB> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        &*self.routes[index]
    }

    /// All routes.
    pub(super) fn all(&self) -> impl Iterator<Item = &dyn Route<DB>> {
        self.routes.iter().map(|route| &**route)
    }

    /// Runs the handler of a number on `run`, and sends what it queued. `deadline` is for each call of
    /// the handler.
    pub async fn run(
        &self,
        number: u32,
        run: &[RunEvent<'_>],
        payloads: DecodedRun<'_>,
        tx: &mut Tx<'_, DB>,
        deadline: Duration,
    ) -> RunEnd
    where
        DB: Sessions,
    {
        let end = self.route(number).run(run, payloads, tx, deadline).await;
        attempt::send_queued(end, tx).await
    }

    /// The schedule of its own that an event type has.
    pub fn schedule(&self, event_type: &str) -> Option<Schedule> {
        self.schedules.get(event_type).copied()
    }

    /// Whether any route looks at versions.
    pub fn has_versions(&self) -> bool {
        !self.versions.is_empty()
    }

    /// Whether events of any route wait for versions before their own.
    pub fn has_gaps(&self) -> bool {
        self.versions.iter().flatten().any(|policy| policy.wait().is_some())
    }

    /// How the route of a number looks at versions.
    pub fn versions(&self, number: u32) -> Option<&VersionPolicy> {
        self.versions.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// Each handled event type with the name of its handler, sorted by type.
    pub fn names(&self) -> Vec<(&str, &'static str)> {
        let mut names = Vec::with_capacity(self.routes.len());
        for (event_type, lookup) in &self.by_type {
            if let RouteLookup::Route(kind) = lookup {
                names.push((&**event_type, self.route(kind.route).name()));
            }
        }
        names.sort_unstable();
        names
    }
}

impl<DB: Database> fmt::Debug for RouteTable<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.names()).finish()
    }
}
