//! Messages of `MassTransit`, Eventuate Tram and Spring: the places of their parts, and what is around the payload.

use bytes::Bytes;

use super::{
    Part, Pointer, ReadRules, Source, Sources, cloud_events,
    connect::{Closed, Connect, Converter, Opened},
    pointer::{self, Pointed},
};
use crate::{JsonFault, Record, Text};

/// A JSON object that holds the payload as a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Envelope {
    member: &'static str,
    /// Whether the member is a text that holds the payload; else it is the payload.
    is_text: bool,
    /// Whether a value without the member is the payload itself.
    is_optional: bool,
    /// Members one of which is beside it, unless the content type says that this is the envelope: a payload may have
    /// a member of that name itself. None: the name alone tells it.
    beside: &'static [&'static str],
    content_type: &'static str,
    /// A header by which a value of another content type is the payload, whatever it looks like.
    raw: &'static str,
}

/// `application/vnd.masstransit+json`, or what the raw serializer writes.
pub(super) const MASSTRANSIT: Envelope = Envelope {
    member: "message",
    is_text: false,
    is_optional: true,
    beside: &["messageType", "messageId"],
    content_type: "application/vnd.masstransit+json",
    raw: "MessageId",
};
/// `io.eventuate.tram.messaging.common.MessageImpl`.
pub(super) const EVENTUATE: Envelope = Envelope {
    member: "payload",
    is_text: true,
    is_optional: false,
    beside: &[],
    content_type: "",
    raw: "",
};

impl Envelope {
    /// Takes a record's value apart. `around` are the pointers of `envelope:` places.
    pub(super) fn open(
        &self,
        record: &Record,
        value: &Bytes,
        around: &[Pointer],
    ) -> Result<Opened, Closed> {
        let mut pointers = vec![Pointer::whole().child(self.member)];
        pointers.extend(self.beside.iter().map(|name| Pointer::whole().child(name)));
        pointers.extend(around.iter().cloned());
        let mut found = vec![None; pointers.len()];
        let read = Pointer::find_all(&pointers, value, &mut found);
        let (beside, behind) = found[1..].split_at(self.beside.len());
        let media = cloud_events::media_type(record);
        let is_named = media.eq_ignore_ascii_case(self.content_type.as_bytes());
        let is_raw = !media.is_empty() && record.header(self.raw).is_some();
        let is_told =
            self.beside.is_empty() || is_named || (!is_raw && beside.iter().any(Option::is_some));
        let json = match (read, found[0].filter(|_| is_told)) {
            (Ok(()), Some(json)) => json,
            (Ok(()), None) | (Err(_), _) if self.is_optional && !is_named => {
                let around = vec![Pointed::Absent; around.len()];
                return Ok(Opened { payload: Some(value.clone()), around });
            }
            (Ok(()), None) => return Err(Closed::NoMember(self.member)),
            (Err(error), _) => return Err(Closed::NoJson(JsonFault::of(value, &error))),
        };
        let payload = match json {
            "null" => None,
            text if self.is_text && text.starts_with('"') => {
                match pointer::value(value, text).map_err(Closed::NoJson)? {
                    Pointed::Scalar(text) => Some(text),
                    Pointed::Absent | Pointed::Unfit => None,
                }
            }
            json => Some(value.slice_ref(json.as_bytes())),
        };
        let around = behind.iter().map(|json| match json {
            Some(json) => pointer::value(value, json).map_err(Closed::NoJson),
            None => Ok(Pointed::Absent),
        });
        Ok(Opened { payload, around: around.collect::<Result<_, _>>()? })
    }
}

fn header(name: &'static str) -> Source {
    Source::Header(Text::from_static(name))
}

/// A member of the value, or of one of its members.
fn member(steps: &[&str]) -> Source {
    Source::Envelope(steps.iter().fold(Pointer::whole(), |place, step| place.child(step)))
}

pub(super) fn masstransit_rules() -> ReadRules {
    let id = Sources::from(header("MessageId")).then(member(&["messageId"]));
    let event_type = Sources::from(header("MT-MessageType")).then(member(&["messageType", "0"]));
    let mut rules = ReadRules::new(id, event_type);
    rules.occurred_at = Some(member(&["sentTime"]).into());
    rules
}

pub(super) fn eventuate_rules() -> ReadRules {
    let of = |name| member(&["headers", name]);
    let mut rules = ReadRules::new(of("ID"), of("event-type"));
    rules.aggregate_type = Sources::from(of("event-aggregate-type")).then(Source::Topic);
    rules
}

/// Spring's mapper of headers leaves the message's `id` out, so rules have to say what the id is.
pub(super) fn spring_rules() -> ReadRules {
    let event_type = Sources::from(header("event_type")).then(header("__TypeId__"));
    ReadRules::new(header("event_id"), event_type)
}

/// Spring's mapper writes headers as JSON, texts in quotes too where it is told so; key and value as they are.
pub(super) fn spring_headers() -> Connect {
    let (key, value, header) = (Converter::Plain, Converter::Plain, Converter::Any);
    Connect { key, value, header, envelope: false, base64: false }
}

/// The first of the types that a message has, the most derived one first.
pub(super) fn first_type(name: &Text, value: &Bytes) -> Bytes {
    match value.iter().position(|byte| *byte == b';') {
        Some(end) if *name == "MT-MessageType" => value.slice(..end),
        _ => value.clone(),
    }
}

pub(super) fn masstransit_advice(part: Option<Part>) -> Option<&'static str> {
    Some(match part {
        Some(Part::Id) => {
            "MassTransit has it in the header `MessageId`, or in the member `messageId` of its \
             envelope; have the producer use one of its serializers, or set `events.rules.id`"
        }
        Some(Part::Type) => {
            "MassTransit has it in the header `MT-MessageType`, or in the member `messageType` of \
             its envelope; have the producer use one of its serializers, or set \
             `events.rules.type`, such as `value:OrderPaid`"
        }
        None => {
            "by its content type it is the envelope, a JSON object with the payload in `message`; \
             have the producer send that, or the content type of the payload"
        }
        Some(_) => return None,
    })
}

pub(super) fn eventuate_advice(part: Option<Part>) -> Option<&'static str> {
    Some(match part {
        Some(Part::Id | Part::Type) => {
            "an event of Eventuate Tram has them in `headers` of its value (`ID`, `event-type`); commands and replies, \
             which have none, belong on other channels"
        }
        None => "Eventuate Tram sends a JSON object with `payload` and `headers`",
        Some(_) => return None,
    })
}

pub(super) fn spring_advice(part: Option<Part>) -> Option<&'static str> {
    Some(match part? {
        Part::Id => {
            "Spring does not send the id of its messages: have the producer set a header \
             (`event_id`), or set `events.rules.id` to the place of the id"
        }
        Part::Type => {
            "Spring's producers have it in the header `event_type`, or `__TypeId__` of its \
             JsonSerializer; have the producer set one, or set `events.rules.type` to its place"
        }
        _ => return None,
    })
}
