//! The tables of `docs/relay.md`, made from the table of keys.

use service_kit::properties::Program;

use super::{Raw, sections::TABLE};

/// Where the generated part of the page begins.
pub(super) const HEAD: &str =
    "<!-- From here on made from the tables in outbox-relay/src; a test compares them. -->";

/// The generated part of `docs/relay.md` about the configuration.
pub(super) fn reference() -> String {
    TABLE.reference("") + &Raw::reference(Program::Relay)
}
