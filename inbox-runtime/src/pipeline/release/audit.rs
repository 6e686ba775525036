//! What a release writes into the audit.

use inbox_store::internal::port::{
    Transactions,
    release::{Act, Queued},
};

use crate::pipeline::transaction::{EarlyEnd, Transaction};

impl<DB: Transactions> Transaction<'_, DB> {
    /// One row for each thing that an operator asked for and that is done now.
    pub(super) async fn audit<'r>(
        &mut self,
        done: impl Iterator<Item = (&'r Queued, &'static str, &'r str)>,
    ) -> Result<(), EarlyEnd> {
        let acts: Vec<Act> = done.map(|(row, what, why)| act(row, what, why)).collect();
        if acts.is_empty() {
            return Ok(());
        }
        let written = DB::audit(self.conn, &self.scope, &acts).await;
        written.map_err(|error| self.statement_failed("the audit", &error))
    }
}

fn act(row: &Queued, what: &'static str, why: &str) -> Act {
    Act {
        who: row.intent.as_ref().map(|(_, who)| who.clone()).unwrap_or_default(),
        what,
        why: why.replace('\0', "\u{fffd}"),
        offset: row.offset,
        id: row.id,
        aggregate: row.aggregate_text.clone(),
        event_type: row.event_type.clone(),
    }
}
