//! The tables of `docs/relay-reference.md`, made from the table of keys.

use service_kit::properties::Program;

use super::{Raw, sections::TABLE};

/// Where the generated part of the page begins.
pub(super) const HEAD: &str =
    "<!-- From here on made from the tables in outbox-relay/src; a test compares them. -->";

const REPEATED: &str = "\
Written in two brackets, any number of times, in the file alone: neither the environment nor flags can set it.

";

/// The generated part of `docs/relay-reference.md` about the configuration.
pub(super) fn reference() -> String {
    TABLE.reference(REPEATED) + &Raw::reference(Program::Relay)
}
