//! What a transaction remembers of the statements that ran on it.

use std::{borrow::Cow, time::Instant};

use inbox_engine::internal::Rule;
use inbox_store::internal::port::{RefusedText, Sessions, StoreFault, deadline};
use outbox_core::internal::said;
use sqlx::{Error, error::DatabaseError};

/// The first thing that went wrong in a transaction: it can only be rolled back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StatementFault {
    /// What it means.
    pub(crate) fault: StoreFault,
    /// The error, for people.
    pub(crate) error: String,
}

/// The guard's memory.
#[derive(Debug, Default)]
pub(super) struct Guard {
    first: Option<StatementFault>,
    /// Rolling back to a savepoint taken before it mends the first failure.
    mends: bool,
    /// Values in the words of the errors that handlers were given, each with what is shown in its place.
    quotable: Vec<(String, String)>,
    /// When a statement was begun whose end has not been seen.
    running: Option<Instant>,
    pub(super) unguarded_used: bool,
    /// A statement's text says that it may leave something on the session.
    pub(super) stays: bool,
    /// The last text that was admitted and leaves nothing on the session: a run repeats it for each event.
    checked: String,
    /// Savepoints open now: the depth of the next one, less one.
    pub(super) open: u32,
    /// Savepoints taken and not rolled back: what the server has to remember.
    pub(super) taken: u32,
}

impl Guard {
    pub(super) fn new(savepoints_taken: u32) -> Self {
        Self { taken: savepoints_taken, ..Self::default() }
    }

    pub(super) fn running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn first_fault(&self) -> Option<StatementFault> {
        if self.first.is_none()
            && let Some(since) = self.running
            && Rule::FailedStatementPoisons.on()
        {
            return Some(half_dropped(since));
        }
        self.first.clone()
    }

    /// Looks at a statement before it is sent.
    pub(super) fn admit<DB: Sessions>(&mut self, sql: &str) -> Result<(), Error> {
        self.usable()?;
        if !self.checked.is_empty() && self.checked == sql {
            return Ok(());
        }
        let look = DB::check_text(sql);
        self.stays |= look.stays;
        let Some(RefusedText { words, why, .. }) = look.refused.filter(|refused| refused.rule.on())
        else {
            if !look.stays {
                sql.clone_into(&mut self.checked);
            }
            return Ok(());
        };
        let text = format!("a handler may not run {words}: {why}");
        Err(self.refuse(StoreFault::Statement, text))
    }

    /// Refuses to go on in a transaction that can only be rolled back, as PostgreSQL itself does.
    pub(super) fn usable(&mut self) -> Result<(), Error> {
        if let Some(since) = self.running {
            self.remember(half_dropped(since), false);
        }
        self.first.as_ref().map_or(Ok(()), |seen| {
            Err(Error::InvalidArgument(format!(
                "this transaction can only be rolled back because an earlier statement failed: {}",
                seen.error
            )))
        })
    }

    pub(super) fn begin(&mut self) {
        self.running.get_or_insert_with(Instant::now);
    }

    pub(super) fn end(&mut self) {
        self.running = None;
    }

    /// A statement failed.
    pub(super) fn fail<DB: Sessions>(&mut self, error: &Error) {
        let ran = self.running.take().map(|since| since.elapsed());
        let (mut fault, mut text) = (DB::fault(error), said(error));
        if self.quotable.len() < QUOTABLE_MAX {
            self.quotable.extend(outbox_core::internal::quotable(error));
        }
        let limit = ran.filter(|_| code(error) == CANCELED).and_then(deadline::server_limit_met);
        if let Some(limit) = limit {
            fault = StoreFault::Statement;
            text = format!(
                "a statement of the handler exceeded `database.statement_timeout` ({limit:?}): \
                 make it faster, or raise the limit; {text}"
            );
        }
        let mends = fault == StoreFault::Statement || waited_too_long(error);
        self.remember(StatementFault { fault, error: text }, mends);
    }

    /// A text of the handler, which may quote what a statement failed with, without its values.
    pub(super) fn unquoted(&self, text: String) -> String {
        outbox_core::internal::unquoted(text, &self.quotable)
    }

    /// Something was refused that the handler asked for.
    pub(super) fn refuse(&mut self, fault: StoreFault, error: String) -> Error {
        self.remember(StatementFault { fault, error: error.clone() }, true);
        Error::InvalidArgument(error)
    }

    /// Whether rolling back to a savepoint that was taken before the first failure mends it.
    pub(super) fn mends(&self) -> bool {
        self.running.is_none() && (self.first.is_none() || self.mends)
    }

    /// The failure and everything it did was rolled back.
    pub(super) fn forgive(&mut self) {
        self.first = None;
    }

    fn remember(&mut self, seen: StatementFault, mends: bool) {
        if self.first.is_none() && Rule::FailedStatementPoisons.on() {
            (self.first, self.mends) = (Some(seen), mends);
        }
    }
}

/// The statement that was begun then is not waited for any more.
fn half_dropped(since: Instant) -> StatementFault {
    if deadline::passed(since.elapsed()) {
        // Whatever the handler did with it: the server would have ended it long ago.
        return StatementFault { fault: StoreFault::Outage, error: deadline::silent().to_string() };
    }
    StatementFault {
        fault: StoreFault::Statement,
        error: "a statement was dropped before it finished (by a timeout, a select, or a stream \
                that was not read to its end), so its effect is unknown; read streams to their \
                end, and limit slow statements by the database's statement_timeout"
            .to_owned(),
    }
}

/// PostgreSQL's lock and statement time-outs end the statement only. Any other conflict may have
/// ended the transaction.
fn waited_too_long(error: &Error) -> bool {
    matches!(&*code(error), LOCK_NOT_HAD | CANCELED)
}

/// What PostgreSQL says when somebody wanted a statement to end: a person, or its own limit.
const CANCELED: &str = "57014";
const LOCK_NOT_HAD: &str = "55P03";
/// A handler that goes on after so many failures may quote later ones.
const QUOTABLE_MAX: usize = 64;

fn code(error: &Error) -> Cow<'_, str> {
    error.as_database_error().and_then(DatabaseError::code).unwrap_or_default()
}
