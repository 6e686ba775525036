//! Our JSON envelope: one event, or a list of them.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use super::{BadInput, Drafts, draft::Draft, names::PartNames, scalar::Scalar};

/// The names are those of the headers of records.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    event_id: String,
    event_type: String,
    aggregate_type: Option<String>,
    aggregate_id: Option<Whole>,
    aggregate_version: Option<Whole>,
    occurred_at: Option<Whole>,
    schema_version: Option<Whole>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Scalar>,
    /// As it is, to the last digit; `null` is a tombstone.
    #[serde(default, deserialize_with = "present")]
    payload: Option<Box<RawValue>>,
    /// A payload that is no JSON.
    payload_base64: Option<String>,
}

/// Text, or a whole number.
struct Whole(String);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Ok(Self(text)),
            Scalar::Number(number) if !number.is_f64() => Ok(Self(number.to_string())),
            _ => Err(D::Error::custom("expected a string or an integer")),
        }
    }
}

/// Tells `null` from what is not there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a body.
pub(super) fn read(body: &Bytes) -> Result<Drafts, BadInput> {
    let is_list = body.trim_ascii_start().starts_with(b"[");
    if !is_list {
        return Ok(Drafts { all: vec![one(body)?], is_list });
    }
    if let Ok(envelopes) = serde_json::from_slice::<Vec<Envelope>>(body) {
        let all = envelopes.into_iter().enumerate();
        let all = all.map(|(at, envelope)| draft(envelope).map_err(|error| error.at(at)));
        return Ok(Drafts { all: all.collect::<Result<_, _>>()?, is_list });
    }
    // Which of them is wrong.
    let parts: Vec<&RawValue> = serde_json::from_slice(body).map_err(not_json)?;
    let parts = parts.into_iter().enumerate();
    let read =
        |(at, part): (usize, &RawValue)| one(part.get().as_bytes()).map_err(|error| error.at(at));
    Ok(Drafts { all: parts.map(read).collect::<Result<_, _>>()?, is_list })
}

fn one(body: &[u8]) -> Result<Draft, BadInput> {
    draft(serde_json::from_slice(body).map_err(not_json)?)
}

fn draft(envelope: Envelope) -> Result<Draft, BadInput> {
    let payload = match (envelope.payload, envelope.payload_base64) {
        (Some(raw), None) if raw.get() == "null" => None,
        (Some(raw), None) => Some(Box::<str>::from(raw).into_boxed_bytes().into()),
        (None, Some(encoded)) => {
            let decoded = STANDARD.decode(encoded);
            Some(decoded.map_err(|_| BadInput::new("`payload_base64` is not base64"))?.into())
        }
        (Some(_), Some(_)) => {
            return Err(BadInput::new("`payload` and `payload_base64` are both present: send one"));
        }
        (None, None) => {
            let error = "`payload` is missing; write `null` for none";
            return Err(BadInput::new(error));
        }
    };
    let headers = envelope.headers.into_iter().map(|(name, value)| match value {
        Scalar::Text(text) => Ok((name, text)),
        _ => Err(BadInput::new(format!("the header `{name}` in `headers` is not a string"))),
    });
    let text = |whole: Option<Whole>| whole.map(|whole| whole.0);
    Ok(Draft {
        names: PartNames::ENVELOPE,
        id: envelope.event_id,
        source: None,
        event_type: envelope.event_type,
        aggregate_type: envelope.aggregate_type,
        aggregate_id: text(envelope.aggregate_id),
        aggregate_version: text(envelope.aggregate_version),
        occurred_at: text(envelope.occurred_at),
        schema_version: text(envelope.schema_version),
        correlation_id: envelope.correlation_id,
        causation_id: envelope.causation_id,
        traceparent: envelope.traceparent,
        tracestate: envelope.tracestate,
        headers: headers.collect::<Result<_, _>>()?,
        payload,
    })
}

fn not_json(error: serde_json::Error) -> BadInput {
    BadInput::new(format!("the body is not a JSON event envelope: {error}"))
}
