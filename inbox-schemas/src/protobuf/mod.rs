//! Protobuf: the text of a file is compiled by `protox`, payloads are read by `prost-reflect`.

mod bounds;
mod known;
mod size;

use outbox_core::{CodecError, internal::DecodeMemory};
use prost_reflect::{
    DescriptorPool, DynamicMessage, FileDescriptor, MessageDescriptor, SerializeOptions,
};
use protox::{
    Compiler,
    file::{ChainFileResolver, File, FileResolver, GoogleFileResolver},
};

use crate::{budget::text_bytes_max, fetched::Fetched, parse::parse, wire, wire::message_path};
use bounds::{Bounds, NO_FORM};

/// The name of a schema's own file, which no import has.
const ROOT: &str = "schema of the registry.proto";

/// A schema of Protobuf.
#[derive(Debug)]
pub struct ProtobufSchema {
    file: FileDescriptor,
}

impl ProtobufSchema {
    /// Reads a schema.
    pub(crate) fn read(fetched: &Fetched) -> Result<Self, String> {
        parse(fetched, Self::parsed)
    }

    fn parsed(fetched: &Fetched) -> Result<Self, String> {
        let said = |error: protox::Error| format!("it is not a Protobuf schema: {error}");
        let mut files = ChainFileResolver::new();
        files.add(Files(fetched.clone()));
        files.add(GoogleFileResolver::new());
        files.add(known::Known);
        let mut compiler = Compiler::with_file_resolver(files);
        compiler.include_imports(true);
        compiler.open_file(ROOT).map_err(said)?;
        let pool: DescriptorPool = compiler.descriptor_pool();
        let file =
            pool.get_file_by_name(ROOT).ok_or("it is not a Protobuf schema: it has no file")?;
        Ok(Self { file })
    }

    /// A payload as JSON. An error shows none of it.
    pub(crate) fn json(
        &self,
        body: &[u8],
        memory: &mut DecodeMemory,
    ) -> Result<Vec<u8>, CodecError> {
        let unfit = |what: &str| wire::unfit("Protobuf", what);
        let (path, body) = message_path(body).map_err(|what| unfit(&what))?;
        let message = self
            .message(&path)
            .ok_or_else(|| unfit("its schema has no message at the indexes that it names"))?;
        let bytes = size::decoded_bytes(&message, body);
        memory.reserve(bytes.max(text_bytes_max(body)))?;
        // What it says may quote the payload.
        let message = DynamicMessage::decode(message, body).map_err(|_| {
            unfit("it is truncated, nested too deep, or does not match the types of its schema")
        })?;
        Bounds::of(body, memory, bytes).message(&message)?;
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true)
            .skip_default_fields(false);
        let mut json = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut json);
        let written = message.serialize_with_options(&mut serializer, &options);
        written.map_err(|_| unfit(NO_FORM))?;
        Ok(json)
    }

    /// By its place among the messages that are declared at each level; those that Protobuf makes of maps do not count.
    fn message(&self, path: &[usize]) -> Option<MessageDescriptor> {
        let (first, inner) = path.split_first()?;
        let mut message = self.file.messages().filter(is_declared).nth(*first)?;
        for place in inner {
            let next = message.child_messages().filter(is_declared).nth(*place)?;
            message = next;
        }
        Some(message)
    }
}

fn is_declared(message: &MessageDescriptor) -> bool {
    !message.is_map_entry()
}

/// The schema, and those that it refers to by their names.
struct Files(Fetched);

impl FileResolver for Files {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let Fetched { text, references, .. } = &self.0;
        if name == ROOT {
            return File::from_source(name, text);
        }
        match references.iter().find(|(known, _)| known == name) {
            Some((_, text)) => File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

#[cfg(test)]
mod tests;
