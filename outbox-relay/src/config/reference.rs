//! The tables of `docs/relay.md`, made from the table of keys.

use service_kit::properties::Program;

use super::{Raw, sections::TABLE};

/// Where the generated part of the page begins.
pub(super) const HEAD: &str =
    "<!-- From here on made from the tables in outbox-relay/src; a test compares them. -->";

/// What is said of a section that occurs any number of times.
const REPEATED: &str = "\
Written `[[webhooks]]`, once for each destination, in the file alone: neither the environment nor flags can set it. It needs a build
with the feature `webhook`. What a receiver gets and what its answers do: [webhooks.md](webhooks.md).

";

/// The generated part of `docs/relay.md` about the configuration.
pub(super) fn reference() -> String {
    TABLE.reference(REPEATED) + &Raw::reference(Program::Relay)
}
