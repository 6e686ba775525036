//! Files that Confluent's serializers know by themselves, so that no registry has them.

use protox::file::{File, FileResolver};

/// Options that describe fields; no payload has anything of them.
const META: &str = r#"syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"#;

const DECIMAL: &str = r#"syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"#;

pub(super) struct Known;

impl FileResolver for Known {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            "confluent/meta.proto" => File::from_source(name, META),
            "confluent/type/decimal.proto" => File::from_source(name, DECIMAL),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}
