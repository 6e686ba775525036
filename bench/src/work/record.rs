//! What candidates that are written by hand read out of a record, each in the form that suits it.

use outbox_core::header_names;
use rdkafka::message::{Headers as _, Message};
use serde::Deserialize;
use uuid::Uuid;
use xtask::failure::{Explain as _, Failure, Outcome};

/// The payload. The rest of it (currency, note) is read over, as by everybody.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Deposited {
    pub(super) account: i64,
    pub(super) amount: i64,
    pub(super) sequence: i64,
}

/// A record as the database needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) id: Uuid,
    pub(super) deposited: Deposited,
    pub(super) offset: i64,
}

impl Event {
    /// Reads a record where librdkafka has it: nothing is copied but what is needed.
    pub(super) fn read(message: &impl Message) -> Outcome<Self> {
        let doing = || format!("a record at offset {}", message.offset());
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        let id = headers.into_iter().find(|header| header.key == header_names::EVENT_ID);
        let id = id.and_then(|header| header.value);
        let id = id.ok_or_else(|| Failure(format!("{}: no id", doing())))?;
        let id = Uuid::try_parse_ascii(id).explain(doing)?;
        let deposited = serde_json::from_slice(message.payload().unwrap_or_default());
        Ok(Self { id, deposited: deposited.explain(doing)?, offset: message.offset() })
    }
}
