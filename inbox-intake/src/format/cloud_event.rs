//! CloudEvents 1.0: structured, in a batch, and binary. A small reader of its own, all of it in this file.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use outbox_core::internal::reads_spec_version;
use serde_json::value::RawValue;

use super::{BadInput, Drafts, decoded, draft::Draft, names::PartNames, scalar::Scalar, text};

/// What says what the data is, of a record as of a request.
const CONTENT_TYPE: &str = "content-type";

/// One event as a JSON document.
pub(super) fn structured(body: &[u8]) -> Result<Draft, BadInput> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).map_err(not_json)?;
    let mut attributes = BTreeMap::new();
    for (name, value) in &members {
        if !matches!(name.as_str(), "data" | "data_base64")
            && let Some(value) = attribute(name, value)?
        {
            attributes.insert(name.as_str(), value);
        }
    }
    let payload = payload(&members, attributes.get("datacontenttype").map(String::as_str))?;
    let draft = draft(|name| Ok(attributes.remove(name)), payload)?;
    let further = attributes.into_iter().map(|(name, value)| match name {
        "datacontenttype" => (CONTENT_TYPE.to_owned(), value),
        name => (format!("ce_{name}"), value),
    });
    Ok(Draft { headers: further.collect(), ..draft })
}

/// A list of such documents.
pub(super) fn batch(body: &[u8]) -> Result<Drafts, BadInput> {
    let parts: Vec<&RawValue> = serde_json::from_slice(body).map_err(not_json)?;
    let parts = parts.into_iter().enumerate();
    let read = |(at, part): (usize, &RawValue)| {
        structured(part.get().as_bytes()).map_err(|error| error.at(at))
    };
    Ok(Drafts { all: parts.map(read).collect::<Result<_, _>>()?, is_list: true })
}

/// One event with its attributes in headers `ce-…`, its data as the body.
pub(super) fn binary(headers: &HeaderMap, body: &Bytes) -> Result<Draft, BadInput> {
    let has_type = headers.contains_key(axum::http::header::CONTENT_TYPE);
    let payload = (has_type || !body.is_empty()).then(|| body.clone());
    let mut taken = Vec::new();
    let take = |name: &str| {
        taken.push(name.to_owned());
        decoded(headers, &format!("ce-{name}"))
    };
    let draft = draft(take, payload)?;
    let mut further = Vec::new();
    for header in headers.keys() {
        let Some(name) = header.as_str().strip_prefix("ce-") else { continue };
        if !taken.iter().any(|own| own == name)
            && let Some(value) = decoded(headers, header.as_str())?
        {
            further.push((format!("ce_{name}"), value));
        }
    }
    if let Some(media) = text(headers, CONTENT_TYPE)? {
        further.push((CONTENT_TYPE.to_owned(), media.to_owned()));
    }
    Ok(Draft { headers: further, ..draft })
}

/// The parts by the names that the relay gives them, too. What nobody takes becomes a header as from Kafka.
fn draft(
    mut take: impl FnMut(&str) -> Result<Option<String>, BadInput>,
    payload: Option<Bytes>,
) -> Result<Draft, BadInput> {
    match take("specversion")?.as_deref() {
        Some(version) if reads_spec_version(version.as_bytes()) => {}
        Some(other) => {
            let error = format!("`specversion` is {other:?}; only 1.x is supported");
            return Err(BadInput::new(error));
        }
        None => return Err(missing("specversion")),
    }
    let mut required =
        |name: &str| take(name)?.filter(|value| !value.is_empty()).ok_or_else(|| missing(name));
    let (id, source) = (required("id")?, required("source")?);
    let event_type = required("type")?;
    let subject = take("subject")?;
    Ok(Draft {
        names: PartNames::CLOUD_EVENT,
        id,
        source: Some(source),
        event_type,
        aggregate_type: take("aggregatetype")?,
        aggregate_id: take("partitionkey")?.or(subject),
        aggregate_version: take("aggregateversion")?,
        occurred_at: take("time")?,
        schema_version: take("schemaversion")?,
        correlation_id: take("correlationid")?,
        causation_id: take("causationid")?,
        traceparent: take("traceparent")?,
        tracestate: take("tracestate")?,
        headers: Vec::new(),
        payload,
    })
}

fn missing(name: &str) -> BadInput {
    BadInput::new(format!("a CloudEvent requires `{name}`"))
}

/// Attributes are texts, numbers or truth values; `null` is as if it were not there.
fn attribute(name: &str, value: &RawValue) -> Result<Option<String>, BadInput> {
    match serde_json::from_str(value.get()).map_err(not_json)? {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => Ok(Some(text)),
        Scalar::Bool | Scalar::Number(_) => Ok(Some(value.get().to_owned())),
        Scalar::Nested => {
            Err(BadInput::new(format!("the attribute `{name}` is not a string, number or boolean")))
        }
    }
}

/// The payload: JSON as it is, text where its type says that it is no JSON, or bytes.
fn payload(
    members: &BTreeMap<String, &RawValue>,
    content_type: Option<&str>,
) -> Result<Option<Bytes>, BadInput> {
    let has = |name| members.get(name).filter(|value| value.get() != "null");
    match (has("data"), has("data_base64")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(BadInput::new("`data` and `data_base64` are both present: send one"))
        }
        (None, Some(encoded)) => {
            let encoded: Option<String> = serde_json::from_str(encoded.get()).ok();
            let bytes = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
            let bytes = bytes.ok_or_else(|| BadInput::new("`data_base64` is not base64"))?;
            Ok(Some(bytes.into()))
        }
        (Some(raw), None) if !is_json(content_type) && raw.get().starts_with('"') => {
            let text: String = serde_json::from_str(raw.get()).map_err(not_json)?;
            Ok(Some(text.into()))
        }
        (Some(raw), None) => Ok(Some(Bytes::copy_from_slice(raw.get().as_bytes()))),
    }
}

/// Whether a type of content is JSON, as it is where none is said.
fn is_json(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else { return true };
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(media.as_str(), "" | "application/json" | "text/json") || media.ends_with("+json")
}

fn not_json(error: serde_json::Error) -> BadInput {
    BadInput::new(format!("the body is not a JSON CloudEvent: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(draft: &Draft) -> Vec<(&str, &str)> {
        draft.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn further_attributes_are_headers_as_from_kafka() {
        let body = br#"{"specversion":"1.0","id":"1","source":"/shop","type":"Paid","partitionkey":"7","tenant":"acme",
            "retries":3,"absent":null,"datacontenttype":"text/plain","data":"a"}"#;
        let told = [("content-type", "text/plain"), ("ce_retries", "3"), ("ce_tenant", "acme")];
        assert_eq!(headers(&structured(body).unwrap()), told);

        let sent: HeaderMap = [
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "/shop"),
            ("ce-type", "Paid"),
            ("ce-tenant", "a%20b"),
            ("content-type", "text/plain"),
        ]
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .into_iter()
        .collect();
        let told = [("ce_tenant", "a b"), ("content-type", "text/plain")];
        assert_eq!(headers(&binary(&sent, &Bytes::from_static(b"a")).unwrap()), told);
    }
}
