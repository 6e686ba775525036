//! Looks through a message before it is written: what is in an `Any` is decoded anew, with nobody who counts on, and
//! what is not set takes no bytes of a payload, but a name and a default.

use outbox_core::{CodecError, internal::DecodeMemory};
use prost_reflect::{
    DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value, prost_types::Any,
};

use super::size;
use crate::{
    budget::{Budget, VALUE_BYTES},
    wire,
};

/// So many messages may be inside each other, those of each `Any` among them.
const DEPTH_MAX: usize = 100;

/// So many `Any` may be inside each other: each is a copy of all that is in it.
const ANY_MAX: usize = 4;

pub(super) const NO_FORM: &str = "a message of it cannot be represented in JSON";

/// What is wrong with a payload. It shows none of it.
fn unfit(what: &'static str) -> CodecError {
    wire::unfit("Protobuf", what)
}

/// How deep it is in a message, in how many `Any`, and how much may follow.
pub(super) struct Bounds<'m> {
    budget: Budget,
    memory: &'m mut DecodeMemory,
    /// What is decoded takes so many bytes.
    bytes: usize,
    depth: usize,
    any: usize,
}

impl<'m> Bounds<'m> {
    /// Of a payload that takes so many bytes once it is decoded.
    pub(super) fn of(body: &[u8], memory: &'m mut DecodeMemory, bytes: usize) -> Self {
        Self { budget: Budget::of(body), memory, bytes, depth: 0, any: 0 }
    }

    fn take(&mut self, bytes: usize) -> Result<(), CodecError> {
        self.budget.take(bytes).map_err(unfit)
    }

    pub(super) fn message(&mut self, message: &DynamicMessage) -> Result<(), CodecError> {
        if self.depth > DEPTH_MAX {
            return Err(unfit("it is nested too deep"));
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
    ) -> Result<(), CodecError> {
        if self.any == ANY_MAX {
            return Err(unfit("more than 4 Any are nested"));
        }
        let no_form = || unfit(NO_FORM);
        let any: Any = message.transcode_to().map_err(|_| no_form())?;
        let (_, name) = any.type_url.rsplit_once('/').ok_or_else(no_form)?;
        let inner = descriptor.parent_pool().get_message_by_name(name).ok_or_else(no_form)?;
        self.bytes = self.bytes.saturating_add(size::decoded_bytes(&inner, &any.value));
        self.memory.reserve(self.bytes)?;
        let inner = DynamicMessage::decode(inner, &*any.value).map_err(|_| no_form())?;
        self.any += 1;
        self.message(&inner)?;
        self.any -= 1;
        Ok(())
    }

    fn fields(
        &mut self,
        message: &DynamicMessage,
        descriptor: &MessageDescriptor,
    ) -> Result<(), CodecError> {
        for field in descriptor.fields() {
            // All others are written with their defaults.
            if field.supports_presence() && !message.has_field(&field) {
                continue;
            }
            self.take(field.name().len() + VALUE_BYTES)?;
            self.value(&message.get_field(&field), &field.kind())?;
        }
        for (extension, value) in message.extensions() {
            self.take(extension.full_name().len() + VALUE_BYTES)?;
            self.value(value, &extension.kind())?;
        }
        Ok(())
    }

    fn value(&mut self, value: &Value, kind: &Kind) -> Result<(), CodecError> {
        match (value, kind) {
            (Value::Message(message), _) => self.message(message),
            (Value::List(values), _) => values.iter().try_for_each(|value| self.value(value, kind)),
            (Value::Map(values), Kind::Message(entry)) => {
                let kind = entry.map_entry_value_field().kind();
                values.values().try_for_each(|value| self.value(value, &kind))
            }
            (Value::EnumNumber(number), Kind::Enum(of)) => {
                self.take(of.get_value(*number).map_or(0, |value| value.name().len()))
            }
            _ => Ok(()),
        }
    }
}
