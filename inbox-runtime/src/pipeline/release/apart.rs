//! What broke its transaction is written down in another one: a handler that ran into its deadline, or
//! that ended the transaction.

use inbox_engine::internal::{ParkReason, Released};
use inbox_store::internal::port::{
    Transactions,
    release::{Queued, RELEASING, Requeued},
};

use super::{
    Errand,
    carry::{Blame, reason},
    not_settled,
    report::{Failed, Report},
};
use crate::pipeline::transaction::{End, Transaction, Work};

/// What a transaction of its own writes.
struct Note {
    requeued: Vec<Requeued>,
    failed: Vec<Failed>,
    /// Marked, but never run.
    follow: Vec<i64>,
    /// Those whose release an operator asked for.
    asked: Vec<Queued>,
}

impl<DB: Transactions> Work<DB> {
    /// Answers as if the release itself had: the head may have changed, so it is looked at again.
    pub(super) async fn apart(&self, errand: Errand<'_>, blame: Blame) -> (Released, Report) {
        let (mut conn, tx, rows) = match self.read(errand).await {
            Ok(read) => read,
            Err(answer) => return (answer, Report::default()),
        };
        let head_is_due = blame.at.is_some_and(|at| at > 0);
        let note = self.note(blame, &rows);
        let batch = errand.batch(Vec::new());
        let mut transaction = Transaction::new(self, errand.scope, &batch, &mut conn);
        transaction.tx = tx;
        let written = transaction.write_down(&note).await;
        match self.end(conn, written).await {
            Ok(()) => {
                let report = Report { failed: note.failed, ..Report::default() };
                (Released::Done { more: head_is_due, removed: 0 }, report)
            }
            Err(outcome) => (not_settled(outcome), Report::default()),
        }
    }

    fn note(&self, blame: Blame, rows: &[Queued]) -> Note {
        let Blame { run, at, torn, fault, error } = blame;
        let now = |row: &Queued| rows.iter().find(|now| now.seq == row.seq);
        // The handler's own COMMIT made the marks durable, and with them what ran before it.
        let committed = run.iter().filter_map(now).any(|row| row.reason == RELEASING);
        let mut note = Note { requeued: vec![], failed: vec![], follow: vec![], asked: vec![] };
        for (index, row) in run.iter().enumerate() {
            let Some(row) = now(row) else { continue };
            let culprit = at.is_none_or(|at| at == index);
            let doubtful = torn && committed && at.is_none_or(|at| index <= at);
            if culprit || doubtful {
                let reason = if torn { ParkReason::Torn } else { reason(fault) };
                let (requeued, failed) = self.requeued(row, reason, error.clone(), true);
                note.requeued.push(requeued);
                note.failed.push(failed);
                note.asked.extend(row.intent.is_some().then(|| row.clone()));
            } else if row.reason == RELEASING {
                note.follow.push(row.seq);
            }
        }
        note
    }
}

impl<DB: Transactions> Transaction<'_, DB> {
    async fn write_down(&mut self, note: &Note) -> Result<(), End> {
        if !note.requeued.is_empty() {
            let wrote = DB::requeue(self.conn, &self.scope, &note.requeued).await;
            wrote.map_err(|error| self.failed("giving parked events a new time", &error))?;
        }
        if !note.follow.is_empty() {
            let wrote = DB::unmark(self.conn, &self.scope, &note.follow).await;
            wrote.map_err(|error| self.failed("putting parked events back", &error))?;
        }
        let error = note.failed.first().map_or("", |failed| &*failed.error);
        self.audit(note.asked.iter().map(|row| (row, "release_failed", error))).await?;
        self.advance().await?;
        self.commit().await
    }
}
