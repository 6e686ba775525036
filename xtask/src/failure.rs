//! One sentence about what went wrong, where, and what to do.

use std::fmt;

/// Why a command stopped. The text is a sentence for the person at the terminal.
#[derive(Debug)]
pub struct Failure(pub String);

/// What a step came to.
pub type Outcome<T = ()> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// A failure with the given sentence.
pub fn failure<T>(sentence: impl Into<String>) -> Outcome<T> {
    Err(Failure(sentence.into()))
}

/// Puts what was being done in front of an error of the standard library.
pub trait Explain<T> {
    /// `doing` is the beginning of the sentence; the error's own text ends it.
    fn explain(self, doing: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: fmt::Display> Explain<T> for Result<T, E> {
    fn explain(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{}: {error}", doing())))
    }
}
