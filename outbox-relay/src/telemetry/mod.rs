//! Everything observable: [`Signal`] for logs, [`Counters`] for numbers, one documented table each. No
//! payload and no secret is ever in either.

mod counters;
mod signal;

#[cfg(test)]
mod tests;

pub use counters::{Counters, Counts};
pub use signal::{SIGNALS, Signal, SignalEntry};

use std::fmt::Write;

/// The generated part of `docs/relay.md` about signals and counters.
pub fn reference() -> String {
    let mut page = String::from(
        "\n## Signals\n\n\
         Everything the relay tells is a log event with the target `outbox_relay` and the field `signal`.\n\n\
         | signal | level | fields | means |\n|---|---|---|---|\n",
    );
    for SignalEntry { name, level, fields, doc } in SIGNALS {
        let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        let _ = writeln!(page, "| `{name}` | {level} | {} | {doc} |", fields.join(", "));
    }
    page.push_str(
        "\n## Counters\n\n\
         Read with `Relay::counters`; they only grow while the process lives.\n\n\
         | counter | counts |\n|---|---|\n",
    );
    for (name, doc) in Counts::DOCS {
        let _ = writeln!(page, "| `{name}` | {doc} |");
    }
    page
}
