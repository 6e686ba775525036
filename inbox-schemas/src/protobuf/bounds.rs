//! Looks through a message before it is written: what is in an `Any` is decoded anew, with nobody who counts on.

use prost_reflect::{
    DynamicMessage, MessageDescriptor, ReflectMessage as _, Value, prost_types::Any,
};

/// So many messages may be inside each other, those of each `Any` among them.
const DEPTH_MAX: usize = 100;

/// So many `Any` may be inside each other: each is a copy of all that is in it.
const ANY_MAX: usize = 4;

/// What is wrong with a payload. It shows none of it.
type Fault = &'static str;

pub(super) const NO_FORM: Fault = "a message of it has no form in JSON";

/// How deep it is in a message, and in how many `Any`.
#[derive(Default)]
pub(super) struct Bounds {
    depth: usize,
    any: usize,
}

impl Bounds {
    pub(super) fn message(&mut self, message: &DynamicMessage) -> Result<(), Fault> {
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deep");
        }
        self.depth += 1;
        let descriptor = message.descriptor();
        if descriptor.full_name() == "google.protobuf.Any" {
            self.any(message, &descriptor)?;
        } else {
            self.fields(message)?;
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

    fn fields(&mut self, message: &DynamicMessage) -> Result<(), Fault> {
        for (_, value) in message.fields() {
            self.value(value)?;
        }
        for (_, value) in message.extensions() {
            self.value(value)?;
        }
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Message(message) => self.message(message),
            Value::List(values) => values.iter().try_for_each(|value| self.value(value)),
            Value::Map(values) => values.values().try_for_each(|value| self.value(value)),
            _ => Ok(()),
        }
    }
}
