//! How a handler's answer is judged: its own error, and the fault that counts.

use std::{any::Any, error::Error as StdError, fmt};

/// Any error, as `?` boxes it.
type AnyError = Box<dyn StdError + Send + Sync>;

/// What a failure means for the event and its partition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The infrastructure is not there: the partition pauses, no attempt counts.
    Outage,
    /// A deadlock, a serialization failure: again at once with fewer events, no attempt counts.
    Conflict,
    /// Another session holds a table or a row that a statement waited for (`database.lock_timeout`): the lanes of its
    /// events wait, and no attempt counts, unless an event meets it alone again and again while others of the same
    /// handler are applied.
    Locked,
    /// It may succeed at the next attempt. After the last one the event is parked.
    Retry,
    /// It can never succeed: the event is parked at once.
    Reject,
}

/// Why a handler did not handle its event.
///
/// `?` turns any error into one that is tried again ([`Fault::Retry`]). That is why this type is
/// itself no [`std::error::Error`], and why a text does not become one by `into()`: it is given to
/// [`retry`](Self::retry) or [`reject`](Self::reject), which says what it means. Errors of the database that are not the handler's fault (lost
/// connection, deadlock) are recognised by the transaction and need no care here.
///
/// ```
/// use inbox_consumer::{HandlerError, HandlerResult};
///
/// fn parse(amount: &str) -> HandlerResult {
///     let amount: i64 = amount.parse()?;
///     if amount < 0 {
///         return Err(HandlerError::reject("an amount is never negative"));
///     }
///     if amount == 0 {
///         return Err(HandlerError::retry(format!("the amount {amount} is not settled yet")));
///     }
///     Ok(())
/// }
///
/// assert!(parse("12").is_ok());
/// assert_eq!(parse("0").unwrap_err().to_string(), "the amount 0 is not settled yet");
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
///
/// ```compile_fail,E0277
/// # use inbox_consumer::HandlerResult;
/// fn handle() -> HandlerResult {
///     Err("whether to try again is not said".into())
/// }
/// ```
#[derive(Debug)]
pub struct HandlerError {
    fault: Fault,
    at: Option<usize>,
    source: AnyError,
}

/// What a handler answers.
pub type HandlerResult = Result<(), HandlerError>;

impl HandlerError {
    /// Try again, with pauses that grow; after the last attempt the event is parked.
    pub fn retry(error: impl Into<AnyError>) -> Self {
        Self { fault: Fault::Retry, at: None, source: error.into() }
    }

    /// Park the event at once: no repetition can help.
    pub fn reject(error: impl Into<AnyError>) -> Self {
        Self { fault: Fault::Reject, at: None, source: error.into() }
    }

    /// Names the event that is to blame by its index in the run, for a
    /// [`BatchHandler`](crate::BatchHandler). Only that event then pays; otherwise the run is
    /// repeated event by event to find it. Elsewhere, and out of bounds, it changes nothing.
    #[must_use]
    pub fn at(mut self, index: usize) -> Self {
        self.at = Some(index);
        self
    }

    /// What the handler says it means; what the transaction saw outranks it.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// The index that [`at`](Self::at) named.
    pub fn index(&self) -> Option<usize> {
        self.at
    }

    /// The first sqlx error among the causes.
    pub(crate) fn database_error(&self) -> Option<&sqlx::Error> {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*self.source);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }

    /// The error and its causes, in one line of at most [`ERROR_BYTES_MAX`] bytes.
    pub(crate) fn text(&self) -> String {
        limit_text(self.to_string())
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

/// The error and its causes. A cause that the text before it tells already is left out; so are values in what a
/// database says.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        // Errors around it quote it.
        let quotable =
            self.database_error().map(outbox_core::internal::quotable).unwrap_or_default();
        let told = |error: &(dyn StdError + 'static)| {
            outbox_core::internal::unquoted(error.to_string(), &quotable)
        };
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*self.source);
        while let Some(error) = cause {
            let database = error.downcast_ref();
            let more = database.map_or_else(|| told(error), outbox_core::internal::said);
            if !text.contains(&more) {
                let colon = if text.is_empty() { "" } else { ": " };
                text.push_str(colon);
                text.push_str(&more);
            }
            // The driver's own text says less.
            cause = error.source().filter(|_| database.is_none());
        }
        f.write_str(&text)
    }
}

/// The longest error text that is kept with an event, in bytes.
pub(crate) const ERROR_BYTES_MAX: usize = 4096;

/// Cuts a text to [`ERROR_BYTES_MAX`].
pub(crate) fn limit_text(mut text: String) -> String {
    if text.len() > ERROR_BYTES_MAX {
        let sign = " […]";
        text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX - sign.len()));
        text.push_str(sign);
    }
    text
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    limit_text(said.unwrap_or("a panic without a text").to_owned())
}
