//! What a payload takes once it is decoded, seen before it is: an item of two bytes takes 800 where it has a field.

use prost_reflect::{Cardinality, Kind, MessageDescriptor};

/// More messages are not inside of each other: what decodes them refuses that.
const DEPTH_MAX: usize = 100;

/// What a message takes in a list that grows, and what the first node of its fields takes.
const MESSAGE: usize = 168;
const FIELDS: usize = 770;
/// What each of its fields takes, and each value of a list.
const VALUE: usize = 70;

/// The bytes that a message takes. What is cut off or of other types is refused behind it.
pub(super) fn decoded_bytes(message: &MessageDescriptor, body: &[u8]) -> usize {
    let mut total = Total(MESSAGE);
    total.fields(Some(message), body, 0);
    total.0
}

struct Total(usize);

impl Total {
    /// Of fields one behind the other. Those of a group are between its two tags.
    fn fields(&mut self, message: Option<&MessageDescriptor>, body: &[u8], depth: usize) {
        let mut rest = body;
        let mut groups = vec![message.cloned()];
        if !body.is_empty() {
            self.add(FIELDS);
        }
        while let Some(tag) = varint(&mut rest) {
            let Some(message) = groups.last().cloned() else { return };
            let field = u32::try_from(tag >> 3).ok();
            let field = message.zip(field).and_then(|(it, number)| it.get_field(number));
            let kind = field.as_ref().map(prost_reflect::FieldDescriptor::kind);
            let of = match &kind {
                Some(Kind::Message(message)) => Some(message),
                _ => None,
            };
            self.add(VALUE);
            match tag & 7 {
                0 => _ = varint(&mut rest),
                1 => rest = rest.get(8..).unwrap_or_default(),
                2 => {
                    let length = varint(&mut rest).and_then(|it| usize::try_from(it).ok());
                    let Some((inner, behind)) = length.and_then(|it| rest.split_at_checked(it))
                    else {
                        return;
                    };
                    rest = behind;
                    let is_list = field.is_some_and(|it| it.cardinality() == Cardinality::Repeated);
                    match (of, &kind) {
                        (Some(_), _) if depth < DEPTH_MAX => {
                            self.add(MESSAGE);
                            self.fields(of, inner, depth + 1);
                        }
                        (_, Some(Kind::String | Kind::Bytes) | None) => self.add(inner.len()),
                        (_, Some(kind)) if is_list => self.add(VALUE * packed(kind, inner)),
                        _ => {}
                    }
                }
                3 if groups.len() < DEPTH_MAX => {
                    self.add(MESSAGE + FIELDS);
                    groups.push(of.cloned());
                }
                4 => drop(groups.pop()),
                5 => rest = rest.get(4..).unwrap_or_default(),
                _ => return,
            }
        }
    }

    fn add(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
    }
}

/// How many numbers are in a list of them.
fn packed(kind: &Kind, list: &[u8]) -> usize {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => list.len() / 8,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => list.len() / 4,
        _ => list.iter().filter(|byte| **byte & 0x80 == 0).count(),
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (place, byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            *rest = &rest[place + 1..];
            return Some(value);
        }
    }
    None
}
