//! Headers as JSON text, as the outbox table has them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Header, Text};

/// A value in JSON: text where it is text, base64 otherwise.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Value {
    Text(String),
    Bytes { base64: String },
}

/// Writes headers as `[["name", "text"], ["name", {"base64": "…"}], ["name", null]]`: the order and
/// names that occur twice are kept.
///
/// ```
/// use outbox_core::{Header, internal::{HeadersError, headers_from_json, headers_to_json}};
///
/// let headers = [
///     Header { name: "tenant".into(), value: Some("a".into()) },
///     Header { name: "key".into(), value: Some(vec![255, 0].into()) },
/// ];
/// let json = headers_to_json(&headers);
/// assert_eq!(json, r#"[["tenant","a"],["key",{"base64":"/wA="}]]"#);
/// assert_eq!(headers_from_json(&json)?, headers);
/// # Ok::<(), HeadersError>(())
/// ```
pub fn headers_to_json(headers: &[Header]) -> String {
    if headers.is_empty() {
        return "[]".to_owned();
    }
    let pairs: Vec<(&str, Option<Value>)> = headers
        .iter()
        .map(|header| (header.name.as_str(), header.value.as_deref().map(value)))
        .collect();
    serde_json::to_string(&pairs).unwrap_or_else(|error| unreachable!("texts are JSON: {error}"))
}

fn value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Bytes { base64: STANDARD.encode(bytes) },
    }
}

/// Reads what [`headers_to_json`] writes.
///
/// # Errors
///
/// When the text is anything else.
pub fn headers_from_json(json: &str) -> Result<Vec<Header>, HeadersError> {
    let pairs: Vec<(String, Option<Value>)> =
        serde_json::from_str(json).map_err(|error| fault(&error))?;
    pairs.into_iter().map(header).collect()
}

/// JSON has a way to write half of a character, and databases take it.
fn fault(error: &serde_json::Error) -> HeadersError {
    if error.to_string().contains("hex escape") {
        return HeadersError::Surrogate { column: error.column() };
    }
    HeadersError::Form
}

fn header((name, value): (String, Option<Value>)) -> Result<Header, HeadersError> {
    let value = match value {
        None => None,
        Some(Value::Text(text)) => Some(Bytes::from(text)),
        Some(Value::Bytes { base64 }) => Some(
            STANDARD.decode(base64).map_err(|_| HeadersError::Base64(name.clone().into()))?.into(),
        ),
    };
    Ok(Header { name: name.into(), value })
}

/// Why a text is no list of headers. Shows no value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadersError {
    /// It is not JSON of that form.
    #[error(
        "the headers are not a JSON array of pairs such as [[\"name\", \"text\"], \
         [\"name\", {{\"base64\": \"…\"}}], [\"name\", null]]"
    )]
    Form,
    /// A name or a value has half of a surrogate pair.
    #[error(
        "a name or a value of the headers has half of a surrogate pair (such as \\ud83d alone) \
         before column {column}, which text does not allow; write the whole character, or bytes \
         as {{\"base64\": \"…\"}}"
    )]
    Surrogate {
        /// From 1, in bytes.
        column: usize,
    },
    /// A value is not base64.
    #[error("the value of the header `{0}` is not base64")]
    Base64(Text),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were() {
        let header = |name: &str, value: Option<&[u8]>| Header {
            name: name.into(),
            value: value.map(Bytes::copy_from_slice),
        };
        let headers = [
            header("a", Some(b"")),
            header("a", Some("ü\"\\\0".as_bytes())),
            header("b", Some(&[0x80, 0])),
            header("c", None),
        ];
        let json = headers_to_json(&headers);
        assert!(!json.contains('\0'), "a database takes it: {json}");
        assert_eq!(headers_from_json(&json).unwrap(), headers);
        assert_eq!(headers_from_json(&headers_to_json(&[])).unwrap(), []);
    }

    #[test]
    fn what_is_no_list_of_headers_is_refused() {
        for wrong in ["", "null", "{}", "[1]", r#"[["a"]]"#, r#"[["a",1]]"#, r#"[["a",{"b":"x"}]]"#]
        {
            assert_eq!(headers_from_json(wrong), Err(HeadersError::Form), "{wrong}");
        }
        for half in
            [r#"[["a","s3cret\ud83d"]]"#, r#"[["a\udc00","x"]]"#, r#"[["a","\ud83d\ud83d"]]"#]
        {
            let error = headers_from_json(half).unwrap_err();
            assert!(matches!(error, HeadersError::Surrogate { column: 9..=22 }), "{error:?}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        let error = headers_from_json(r#"[["secret",{"base64":"!"}]]"#).unwrap_err();
        assert_eq!(error.to_string(), "the value of the header `secret` is not base64");
    }
}
