//! Why a relay could not be built.

use crate::{
    config::Problem,
    port::{Finding, OpenError},
};

/// Why a relay could not be built. Each text says what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration is wrong, or unsafe.
    #[error("{}", sentences(.0))]
    Config(Vec<Problem>),
    /// The database cannot be reached, or refuses.
    #[error("{0}")]
    Database(#[from] OpenError),
    /// The outbox tables are missing or of another version.
    #[error("{0}")]
    Schema(String),
    /// Something about the database keeps a relay from its work.
    #[error("{}", findings(.0))]
    Unsafe(Vec<Finding>),
}

fn sentences(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn findings(findings: &[Finding]) -> String {
    findings.iter().map(|finding| finding.text.as_str()).collect::<Vec<_>>().join("\n")
}
