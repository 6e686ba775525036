//! Why a payload is no value, in sentences that show nothing of it.

/// Why a payload is no value, or a value no payload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The payload is not JSON at all.
    #[error("the payload is not JSON: {0}")]
    Syntax(JsonFault),
    /// The payload is JSON, but not of the expected shape.
    #[error("the payload does not fit the event's type: {0}")]
    Shape(JsonFault),
    /// There is no payload.
    #[error(
        "the record has no payload (a tombstone), which the event's type does not allow; use \
         Option<…> as the handler's event type to accept tombstones"
    )]
    Tombstone,
    /// The value has no encoding.
    #[error("cannot encode the value: {0}")]
    Encode(String),
    /// What the codec needs is not there at the moment, for no payload of its kind: an outage, and no fault of the event.
    #[error("{0}")]
    Unavailable(String),
    /// What another codec has to say: a sentence without any of the payload.
    #[error("{0}")]
    Other(String),
}

impl CodecError {
    /// What a codec of one's own has to say: a sentence without any of the payload.
    pub fn other(sentence: impl Into<String>) -> Self {
        Self::Other(sentence.into())
    }

    /// What serde says of a value that a payload was decoded to, without the value.
    pub fn value(error: &serde_json::Error) -> Self {
        let what = JsonFault::of(b"", error).what;
        Self::Other(format!(
            "the payload does not fit the event's type: {what}; fix its producer, or the \
             handler's type"
        ))
    }

    /// Whether it says nothing of the payload, which is to wait.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    pub(crate) fn from_json(json: &[u8], error: &serde_json::Error) -> Self {
        let fault = JsonFault::of(json, error);
        if error.is_data() { Self::Shape(fault) } else { Self::Syntax(fault) }
    }
}

/// What some programs write in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What is wrong with a JSON text, and where. Shows none of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} at line {line} column {column}")]
pub struct JsonFault {
    /// What is wrong, in words of the parser and the expected type.
    pub what: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in bytes.
    pub column: usize,
}

impl JsonFault {
    /// Of a line of `whole` that `part` is a part of.
    pub(crate) fn inside(whole: &[u8], part: &str, error: &serde_json::Error) -> Self {
        let before = &whole[..part.as_ptr() as usize - whole.as_ptr() as usize];
        let lines = before.split(|byte| *byte == b'\n');
        let (line, column) = lines.fold((0, 0), |(line, _), text| (line + 1, text.len()));
        Self { line, column: column + error.column(), ..Self::of(b"", error) }
    }

    /// What is wrong with `json` by this error.
    #[doc(hidden)]
    pub fn of(json: &[u8], error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let what = if json.starts_with(BYTE_ORDER_MARK) {
            "it begins with a byte order mark, which JSON does not allow".into()
        } else if error.is_data() {
            shape(&text)
        } else {
            without_place(&text)
        };
        Self { what: what.into_owned(), line: error.line(), column: error.column() }
    }
}

/// The parser's sentence without "at line 1 column 2". Of syntax errors only: they quote nothing.
fn without_place(text: &str) -> std::borrow::Cow<'_, str> {
    text.rsplit_once(" at line ").map_or(text, |(what, _)| what).into()
}

/// The parts of serde's sentences that come from the expected type. What was found instead
/// stands between them and may be anyone's secret.
fn shape(text: &str) -> std::borrow::Cow<'_, str> {
    const KINDS: [&str; 5] =
        ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];
    let what = text.rsplit_once(" at line ").map_or(text, |(what, _)| what);
    if what.starts_with("missing field `") || what.starts_with("duplicate field `") {
        return what.into();
    }
    let Some(kind) = KINDS.into_iter().find(|kind| what.starts_with(kind)) else {
        return "a value was refused".into();
    };
    // Without fields or variants nothing is "expected" after what was found.
    if what.ends_with(", there are no fields") || what.ends_with(", there are no variants") {
        return kind.into();
    }
    match what.rsplit_once(", expected ") {
        Some((_, expected)) => format!("{kind}, expected {expected}").into(),
        None => kind.into(),
    }
}
