//! Handlers without Rust: SQL statements of the configuration that read a relation of events.
//!
//! `[[handlers]]` names an event type, typed columns and a statement. The statement reads
//! `events(ord, event_id, aggregate_id, occurred_at, …)`; docs/declared-handlers.md tells what it may be.

mod column;
mod decimal;
mod declaration;
mod payloads;
mod ready;
mod relation;
mod route;
mod time;
mod value;

#[cfg(test)]
mod deliveries;
#[cfg(all(test, feature = "postgres"))]
mod services;
#[cfg(all(test, feature = "sqlite"))]
mod sqlite_tests;
#[cfg(test)]
mod value_tests;

use std::{marker::PhantomData, sync::Arc};

pub use declaration::{Declared, DeclaredMode};
pub use payloads::PayloadCodec;
pub(super) use route::DeclaredRoute;

use inbox_store::internal::port::{Shape, Transactions};

use super::{Entry, Registered, Routes};
use relation::Columns;
use route::ChunkSize;
#[cfg(feature = "testing")]
use {
    super::RunEvent, crate::Delivery, inbox_store::internal::port::Relation, payloads::Payloads,
    std::collections::BTreeMap,
};

impl<DB: Transactions> Routes<DB> {
    /// Adds the handlers that a configuration declares; `codec` makes JSON of their payloads, which are JSON without. What is wrong with them is told with everything
    /// else that is wrong with the registrations.
    #[doc(hidden)]
    #[must_use]
    pub fn declare(self, handlers: &[Declared], codec: Option<&PayloadCodec>) -> Self {
        handlers.iter().fold(self, |mut routes, handler| match DeclaredRoute::read(handler) {
            Ok(route) => {
                let codec = codec.filter(|_| route.columns.read_payloads()).map(Arc::clone);
                routes.add_declared(handler, DeclaredRoute { codec, ..route })
            }
            Err(wrong) => {
                routes.refused.extend(wrong);
                routes
            }
        })
    }

    fn add_declared(mut self, handler: &Declared, route: DeclaredRoute<DB>) -> Self {
        let route = Arc::new(route);
        self.declared.push(Arc::clone(&route));
        let whole_run = handler.mode == DeclaredMode::Run;
        let one_per_aggregate = handler.aggregates_once();
        if let Some(policy) = handler.versions {
            self = self.versions(&handler.event_type, policy);
        }
        self.add(
            &handler.event_type,
            Entry::Handled(Registered { route, whole_run, one_per_aggregate }),
        )
    }
}

/// What columns make of one delivery, for the targets in `fuzz/`.
#[cfg(feature = "testing")]
pub fn gather_columns<'a>(
    columns: &BTreeMap<String, String>,
    delivery: &'a Arc<Delivery>,
) -> Result<(Relation<'a>, Option<String>), Vec<String>> {
    let columns = Columns::new(column::read(columns)?);
    Ok(columns.gather(&[RunEvent { delivery, attempt: 1 }], &Payloads::AS_THEY_ARE))
}

impl<DB: Transactions> DeclaredRoute<DB> {
    /// A route, or a sentence for each thing that is wrong.
    fn read(handler: &Declared) -> Result<Self, Vec<String>> {
        let whose = format!("the declared handler for `{}`", handler.event_type);
        let mut wrong = Vec::new();
        if handler.one_per_aggregate == Some(true) && handler.mode == DeclaredMode::Each {
            wrong.push(format!(
                "{whose} has `one_per_aggregate`, which is for runs, and the mode each, whose \
                 statement always gets one event; remove it, or set mode = \"run\""
            ));
        }
        let columns = column::read(&handler.columns).unwrap_or_else(|errors| {
            wrong.extend(errors.iter().map(|error| format!("{whose}: {error}")));
            Vec::new()
        });
        let named = columns.iter().map(|column| (column.name.as_str(), column.kind));
        let shape = Shape { sql: &handler.sql, columns: named.collect() };
        let sql = DB::declare(&shape).map_err(|error| {
            wrong.push(format!("{whose}: its statement {error}"));
        });
        match sql {
            Ok(sql) if wrong.is_empty() => Ok(Self {
                event_type: handler.event_type.clone(),
                mode: handler.mode,
                columns: Columns::new(columns),
                codec: None,
                sql,
                text: handler.sql.clone(),
                looped: false.into(),
                chunk_size: ChunkSize::default(),
                database: PhantomData,
            }),
            _ => Err(wrong),
        }
    }
}
