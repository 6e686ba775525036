//! Places in a request by HTTP, as a configuration writes them.

use super::Pointer;

/// What a place in a header begins with.
const HEADER: &str = "header:";

/// Where a part of an event is in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestPlace {
    /// In this header; its name is in lower case.
    Header(String),
    /// In the body, which is JSON.
    Body(Pointer),
}

impl RequestPlace {
    /// Reads `header:Name`, or a JSON pointer; `None` where it is neither.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text.strip_prefix(HEADER) {
            Some(name) => is_header(name).then(|| Self::Header(name.to_ascii_lowercase())),
            None => pointer(text).map(Self::Body),
        }
    }
}

/// A JSON pointer to a part of a body: the whole is none.
#[must_use]
pub fn pointer(text: &str) -> Option<Pointer> {
    text.parse().ok().filter(|pointer: &Pointer| !pointer.is_whole())
}

/// Whether HTTP has headers of that name (RFC 9110, 5.6.2).
fn is_header(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}
