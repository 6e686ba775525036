//! The tables of `docs/relay.md`, made from the table of keys.

use std::fmt::Write;

use super::{keys::TABLE, refused::REFUSED};

/// Where the generated part of the page begins.
pub const HEAD: &str =
    "<!-- From here on made from the tables in outbox-relay/src; a test compares them. -->";

/// The generated part of `docs/relay.md` about the configuration.
pub fn reference() -> String {
    let mut page = TABLE.reference("");
    page.push_str(
        "\n## Refused in [kafka.raw]\n\n| setting | why, and what to do instead |\n|---|---|\n",
    );
    for (name, why) in REFUSED {
        let _ = writeln!(page, "| `{name}` | {why} |");
    }
    page.push_str("| `debug` with `all`, `security` or `protocol` | it would print credentials; name other contexts |\n");
    page
}
