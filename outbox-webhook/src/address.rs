//! Where a call goes: the template of a URL, of which an event fills path and query alone.

use outbox_core::Envelope;
use reqwest::Url;

use crate::{attempt::Attempt, percent};

/// `https://shop.example/{aggregate_type}/events`, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// Scheme, host and port: never an event's choice.
    origin: String,
    parts: Vec<Part>,
    /// The URL with `x` in each place.
    example: Url,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    EventType,
    AggregateType,
    AggregateId,
    Topic,
}

impl Address {
    /// Takes a template apart.
    ///
    /// # Errors
    /// What is wrong with it and what to write, behind the name of its key.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| {
            ["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        }) else {
            return Err("begins neither with https:// nor with http://".to_owned());
        };
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains(['{', '}']) {
            return Err(
                "has a placeholder in host or port, so an event would choose its receiver; \
                        only path and query may have placeholders"
                    .to_owned(),
            );
        }
        if authority.contains('@') {
            return Err("contains credentials, which would be shown; put them into the file of \
                        `basic_file`"
                .to_owned());
        }
        if target.contains('#') {
            return Err("has a `#`; the part after it is never sent, so remove it".to_owned());
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        let parts = parts(&format!("{slash}{target}"))?;
        let origin = format!("{scheme}://{authority}");
        let filled: String = parts.iter().map(|part| part.text().unwrap_or("x")).collect();
        let example = Url::parse(&format!("{origin}{filled}"))
            .map_err(|error| format!("is not a URL: {error}"))?;
        if path_and_query(&example) != filled {
            return Err("has characters in path or query that a URL does not allow (spaces, \
                        letters beyond ASCII, `.` or `..` as a segment); percent-encode them"
                .to_owned());
        }
        Ok(Self { origin, parts, example })
    }

    /// The URL for an event.
    ///
    /// # Errors
    /// Why there is none, behind the name of the destination.
    pub(crate) fn fill(&self, attempt: Attempt<'_>) -> Result<Url, String> {
        let Envelope { event_type, aggregate, .. } = attempt.event.envelope();
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::EventType => filled += &percent::segment(event_type),
                Part::AggregateType => filled += &percent::segment(aggregate.aggregate_type()),
                Part::AggregateId => filled += &percent::segment(aggregate.aggregate_id()),
                Part::Topic => match attempt.topic {
                    Some(topic) => filled += &percent::segment(topic),
                    None => {
                        return Err(
                            "has {topic} in its `url`, and the event has no topic".to_owned()
                        );
                    }
                },
            }
        }
        let url = Url::parse(&format!("{}{filled}", self.origin))
            .map_err(|error| format!("has no URL for the event: {error}"))?;
        // `.` and `..` cannot be encoded: they would lead elsewhere.
        if path_and_query(&url) != filled || url.origin() != self.example.origin() {
            return Err(
                "has no URL for the event: one of its values would be `.` or `..` in the path"
                    .to_owned(),
            );
        }
        Ok(url)
    }

    /// Whether path or query differ between events.
    pub(crate) fn is_filled(&self) -> bool {
        self.parts.iter().any(|part| part.text().is_none())
    }

    /// Scheme, host and port.
    pub(crate) fn scope(&self) -> String {
        self.example.origin().ascii_serialization()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.example.scheme() == "https"
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.example.host_str().is_some_and(service_kit::is_loopback)
    }
}

impl Part {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        parts.push(Part::Text(before.to_owned()));
        let (name, after) = behind.split_once('}').ok_or("has a `{` without its `}`")?;
        parts.push(match name {
            "event_type" => Part::EventType,
            "aggregate_type" => Part::AggregateType,
            "aggregate_id" => Part::AggregateId,
            "topic" => Part::Topic,
            other => {
                return Err(format!(
                    "has {{{other}}}, which is not one of {{event_type}}, {{aggregate_type}}, \
                     {{aggregate_id}} and {{topic}}"
                ));
            }
        });
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use outbox_core::{Aggregate, OutboxEvent};

    use super::*;

    fn fill(
        address: &Address,
        event_type: &str,
        id: &str,
        topic: Option<&str>,
    ) -> Result<Url, String> {
        let aggregate = Aggregate::new("Purchase Order", id).unwrap();
        let event = &OutboxEvent::new(event_type, &aggregate, &1).unwrap();
        address.fill(Attempt { event, topic, number: 1 })
    }

    #[test]
    fn each_value_is_one_segment() {
        let text = "https://shop.example:8443/in/{aggregate_type}/{aggregate_id}?t={event_type}&at={topic}";
        let address = Address::read(text).unwrap();
        let url = fill(&address, "a&b=c#d", "../../admin?x", Some("shop.orders")).unwrap();
        let wanted = "https://shop.example:8443/in/Purchase%20Order/..%2F..%2Fadmin%3Fx?t=a%26b%3Dc%23d&at=shop.orders";
        assert_eq!(url.as_str(), wanted);
        assert_eq!(address.scope(), "https://shop.example:8443");
    }

    #[test]
    fn an_event_never_leaves_the_path_it_was_given() {
        let address = Address::read("https://h/in/{aggregate_id}/x").unwrap();
        for id in [".", ".."] {
            let error = fill(&address, "t", id, None).unwrap_err();
            assert!(error.contains("`.` or `..`"), "{error}");
        }
        for id in ["...", "%2e%2e", "a..b", "\\..\\", "@evil.example", ":80"] {
            let url = fill(&address, "t", id, None).unwrap();
            assert_eq!(url.path_segments().unwrap().count(), 3, "{url}");
            assert_eq!(url.host_str(), Some("h"));
        }
        let dotted = Address::read("https://h/.{aggregate_id}/x").unwrap();
        assert!(fill(&dotted, "t", ".", None).is_err());
    }

    #[test]
    fn a_url_without_a_path_has_the_shortest() {
        for (text, url) in [("http://h", "http://h/"), ("HTTP://H?a", "http://h/?a")] {
            let address = Address::read(text).unwrap();
            assert_eq!(fill(&address, "t", "1", None).unwrap().as_str(), url);
            assert!(!address.is_filled());
        }
    }

    #[test]
    fn a_topic_that_is_asked_for_has_to_be_there() {
        let address = Address::read("https://h/{topic}").unwrap();
        assert!(fill(&address, "t", "1", None).unwrap_err().contains("no topic"));
    }
}
