//! One sentence about what went wrong, where, and what to do.

use std::fmt;

/// Why a command stopped. The text is a sentence for the person at the terminal.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A failure with the given sentence.
pub(crate) fn failure<T>(sentence: impl Into<String>) -> Outcome<T> {
    Err(Failure(sentence.into()))
}

/// Puts what was being done in front of an error of the standard library.
pub(crate) trait Explain<T> {
    fn explain(self, doing: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: fmt::Display> Explain<T> for Result<T, E> {
    fn explain(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{}: {error}", doing())))
    }
}
