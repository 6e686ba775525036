//! Reading the SQL text of handlers, in the dialect of either database.

mod lexer;
mod names;
pub(crate) mod verbs;

#[cfg(test)]
mod verb_tests;

pub use lexer::{Dialect, Lexer, Token};
