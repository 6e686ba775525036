//! The tables of `docs/relay-reference.md`, made from the table of keys.

use service_kit::properties::Program;

use super::{Raw, sections::TABLE};

/// Where the generated part of the page begins.
pub(super) const HEAD: &str =
    "<!-- From here on made from the tables in outbox-relay/src; a test compares them. -->";

const REPEATED: &str = "\
Written in two brackets, any number of times. In the environment and in flags the tables are numbered from 0, such as
`OUTBOX_WEBHOOKS__0__URL` or `--set routes.0.to=shop`; a number used in the file overrides keys of that table.

";

/// The generated part of `docs/relay-reference.md` about the configuration.
pub(super) fn reference() -> String {
    TABLE.reference(REPEATED) + &Raw::reference(Program::Relay)
}
