//! The tables of `docs/relay.md`, made from the table of keys.

use inbox_settings::properties::Program;

use super::{Raw, keys::TABLE};

/// Where the generated part of the page begins.
pub(super) const HEAD: &str =
    "<!-- From here on made from the tables in outbox-relay/src; a test compares them. -->";

/// The generated part of `docs/relay.md` about the configuration.
pub(super) fn reference() -> String {
    TABLE.reference("") + &Raw::reference(Program::Relay)
}
