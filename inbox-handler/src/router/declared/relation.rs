//! The relation of a run: its events as columns.

use inbox_store::internal::port::{ColumnType, Relation};
use outbox_core::{JsonFault, Pointer};
use uuid::Uuid;

use super::{
    super::RunEvent,
    column::{Column, Source},
    payloads::Payloads,
    time,
    value::{self, Given},
};
use crate::handler::limit_text;

/// The typed columns of a handler, and where they are found.
#[derive(Debug)]
pub(super) struct Columns {
    all: Vec<Column>,
    /// Where those are that come from the payload, in the order of the columns.
    pointers: Vec<Pointer>,
}

impl Columns {
    pub(super) fn new(all: Vec<Column>) -> Self {
        let pointers = all.iter().filter_map(|column| match &column.source {
            Source::Payload(pointer) => Some(pointer.clone()),
            Source::Header(_) | Source::Key => None,
        });
        Self { pointers: pointers.collect(), all }
    }

    /// Whether any column takes something from the payload.
    pub(super) fn read_payloads(&self) -> bool {
        !self.pointers.is_empty()
    }

    /// The events up to the first that does not fit, and what is wrong with that one.
    pub(super) fn gather<'a>(
        &self,
        run: &[RunEvent<'a>],
        payloads: &'a Payloads,
    ) -> (Relation<'a>, Option<String>) {
        let mut relation = Relation {
            ids: Vec::with_capacity(run.len()),
            aggregate_ids: Vec::with_capacity(run.len()),
            occurred_at: Vec::with_capacity(run.len()),
            columns: self.all.iter().map(|c| value::room(c.kind, run.len())).collect(),
        };
        let mut found = vec![None; self.pointers.len()];
        for (at, event) in run.iter().enumerate() {
            let payload = payloads.get(at, event);
            if let Err(error) = self.add(*event, payload, &mut found, &mut relation) {
                let length = relation.ids.len();
                relation.columns.iter_mut().for_each(|values| value::shorten(values, length));
                return (relation, Some(limit_text(error)));
            }
        }
        (relation, None)
    }

    fn add<'a>(
        &self,
        event: RunEvent<'a>,
        payload: Option<&'a [u8]>,
        found: &mut [Option<&'a str>],
        relation: &mut Relation<'a>,
    ) -> Result<(), String> {
        let envelope = event.delivery.event.as_ref().map_err(ToString::to_string)?;
        self.look(payload, found)?;
        let mut found = found.iter();
        for (column, values) in self.all.iter().zip(&mut relation.columns) {
            let record = event.delivery.as_read();
            let given = match &column.source {
                Source::Header(name) => record.header(name).map(|value| Given::Bytes(value)),
                Source::Key => record.key.as_deref().map(Given::Bytes),
                Source::Payload(_) => found.next().copied().flatten().map(Given::Json),
            };
            if column.source == Source::Key
                && column.kind != ColumnType::Bytea
                && record.is_key_of_schema()
            {
                let found = "a value that was written with a schema of a registry \
                             (`__key_schema_id`), which is not supported for keys";
                return Err(value::binary_key(column, found));
            }
            value::put(column, given, values)?;
        }
        relation.ids.push(Uuid::from_bytes(*envelope.event_id.as_bytes()));
        relation.aggregate_ids.push(envelope.aggregate.aggregate_id());
        relation.occurred_at.push(envelope.occurred_at_ms.and_then(time::micros_of_millis));
        Ok(())
    }

    /// Finds the values of the payload.
    fn look<'a>(
        &self,
        payload: Option<&'a [u8]>,
        found: &mut [Option<&'a str>],
    ) -> Result<(), String> {
        let Some(payload) = payload.filter(|_| !self.pointers.is_empty()) else {
            found.fill(None);
            return Ok(());
        };
        let taken = Pointer::find_all(&self.pointers, payload, found);
        // A syntax error quotes nothing of the text.
        taken.map_err(|error| {
            let fault = JsonFault::of(payload, &error);
            format!("the payload is not JSON: {fault}; fix its producer")
        })
    }
}
