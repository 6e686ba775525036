//! Everything observable: [`Signal`] for logs, [`Counters`] for numbers, one documented table each. No
//! payload and no secret is ever in either.

mod counters;
mod signal;
mod troubles;

#[cfg(test)]
mod tests;

pub use counters::{Counters, Counts};
pub use service_kit::SignalEntry;
pub use signal::{SIGNALS, Signal};
pub(crate) use troubles::Troubles;

#[cfg(test)]
use service_kit::Counter;

/// The generated part of `docs/relay.md` about signals and counters.
#[cfg(test)]
pub(crate) fn reference() -> String {
    let mut page = String::from(
        "\n## Signals\n\n\
         Everything the relay tells is a log event with the target `outbox_relay` and the field `signal`.\n\n",
    );
    page.push_str(&SignalEntry::reference(SIGNALS));
    page.push_str(&Counter::reference(Counts::DOCS, "Relay::counters"));
    page
}
