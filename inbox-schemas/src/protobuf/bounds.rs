//! Looks through a message before it is written: what is in an `Any` is decoded anew, with nobody who counts on, and
//! what is not set takes no bytes of a payload, but a name and a default.

use prost_reflect::{
    DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value, prost_types::Any,
};

use crate::budget::{Budget, VALUE_BYTES};

/// So many messages may be inside each other, those of each `Any` among them.
const DEPTH_MAX: usize = 100;

/// So many `Any` may be inside each other: each is a copy of all that is in it.
const ANY_MAX: usize = 4;

/// What is wrong with a payload. It shows none of it.
type Fault = &'static str;

pub(super) const NO_FORM: Fault = "a message of it has no form in JSON";

/// How deep it is in a message, in how many `Any`, and how much may follow.
pub(super) struct Bounds {
    budget: Budget,
    depth: usize,
    any: usize,
}

impl Bounds {
    /// Of a payload.
    pub(super) fn of(body: &[u8]) -> Self {
        Self { budget: Budget::of(body), depth: 0, any: 0 }
    }

    pub(super) fn message(&mut self, message: &DynamicMessage) -> Result<(), Fault> {
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deep");
        }
        self.depth += 1;
        let descriptor = message.descriptor();
        if descriptor.full_name() == "google.protobuf.Any" {
            self.any(message, &descriptor)?;
        } else {
            self.fields(message, &descriptor)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn any(
        &mut self,
        message: &DynamicMessage,
        descriptor: &MessageDescriptor,
    ) -> Result<(), Fault> {
        if self.any == ANY_MAX {
            return Err("more than 4 Any are inside each other");
        }
        let any: Any = message.transcode_to().map_err(|_| NO_FORM)?;
        let (_, name) = any.type_url.rsplit_once('/').ok_or(NO_FORM)?;
        let inner = descriptor.parent_pool().get_message_by_name(name).ok_or(NO_FORM)?;
        let inner = DynamicMessage::decode(inner, &*any.value).map_err(|_| NO_FORM)?;
        self.any += 1;
        self.message(&inner)?;
        self.any -= 1;
        Ok(())
    }

    fn fields(
        &mut self,
        message: &DynamicMessage,
        descriptor: &MessageDescriptor,
    ) -> Result<(), Fault> {
        for field in descriptor.fields() {
            // All others are written with their defaults.
            if field.supports_presence() && !message.has_field(&field) {
                continue;
            }
            self.budget.take(field.name().len() + VALUE_BYTES)?;
            self.value(&message.get_field(&field), &field.kind())?;
        }
        for (extension, value) in message.extensions() {
            self.budget.take(extension.full_name().len() + VALUE_BYTES)?;
            self.value(value, &extension.kind())?;
        }
        Ok(())
    }

    fn value(&mut self, value: &Value, kind: &Kind) -> Result<(), Fault> {
        match (value, kind) {
            (Value::Message(message), _) => self.message(message),
            (Value::List(values), _) => values.iter().try_for_each(|value| self.value(value, kind)),
            (Value::Map(values), Kind::Message(entry)) => {
                let kind = entry.map_entry_value_field().kind();
                values.values().try_for_each(|value| self.value(value, &kind))
            }
            (Value::EnumNumber(number), Kind::Enum(of)) => {
                self.budget.take(of.get_value(*number).map_or(0, |value| value.name().len()))
            }
            _ => Ok(()),
        }
    }
}
