//! Payloads of a run as JSON, where a codec reads them: what columns point into.

use std::sync::Arc;

use outbox_core::Decode;
use serde_json::value::RawValue;

use super::super::{
    RunEvent,
    attempt::{self, DecodeFault},
};

/// What makes JSON of payloads that are none.
pub type PayloadCodec = Arc<dyn Decode<Box<RawValue>>>;

/// Payloads of the first events of a run.
#[derive(Debug)]
pub(super) struct Payloads {
    /// Nothing where payloads are JSON themselves; else one for each event, nothing for a tombstone.
    decoded: Option<Vec<Option<Box<RawValue>>>>,
    /// Why the event behind them is not decoded.
    pub(super) fault: Option<DecodeFault>,
}

impl Payloads {
    /// They are JSON themselves.
    pub(super) const AS_THEY_ARE: Self = Self { decoded: None, fault: None };

    /// Decodes the payloads of a run, up to the first that cannot be.
    pub(super) fn decode(codec: &PayloadCodec, run: &[RunEvent<'_>]) -> Self {
        let (mut decoded, mut fault) = (Vec::with_capacity(run.len()), None);
        for event in run {
            let payload = attempt::payload(event).map_err(DecodeFault::Unreadable);
            let one = payload.and_then(|payload| match payload.content() {
                Some(_) => attempt::decode_payload(codec, &payload).map(Some),
                None => Ok(None),
            });
            match one {
                Ok(one) => decoded.push(one),
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
        Self { decoded: Some(decoded), fault }
    }

    /// Those events of the run that have one.
    pub(super) fn of<'r, 'a>(&self, run: &'r [RunEvent<'a>]) -> &'r [RunEvent<'a>] {
        match &self.decoded {
            Some(decoded) => &run[..decoded.len()],
            None => run,
        }
    }

    /// The JSON of the event at a place; nothing for a tombstone.
    pub(super) fn get<'a>(&'a self, at: usize, event: &RunEvent<'a>) -> Option<&'a [u8]> {
        match &self.decoded {
            Some(decoded) => decoded.get(at)?.as_ref().map(|json| json.get().as_bytes()),
            None => event.delivery.event.as_ref().ok()?.payload.as_deref(),
        }
    }
}
