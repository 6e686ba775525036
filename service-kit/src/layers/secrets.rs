//! Secrets: files that hold them, and who else may have seen them.

use std::mem::discriminant;

use toml::Value;

use super::{Layers, Origin, Source};
use crate::{Key, Kind, Problem, files::doubt_of};

impl Layers {
    /// One layer has the secret itself and a file for it: neither goes before the other.
    pub(super) fn set_twice(&mut self, key: &Key, source: &Source) {
        let Some(first) = self.sources.get(key.path) else { return };
        let one_layer = discriminant(&first.origin) == discriminant(&source.origin);
        if one_layer && first.file.is_some() != source.file.is_some() {
            let (own, file) = if source.file.is_some() { (first, source) } else { (source, first) };
            self.complaints.push(format!(
                "`{0}` in {1} and `{0}_file` in {2} are both set; remove one of them",
                key.path, own.origin, file.origin
            ));
        }
    }

    pub(super) fn put_secret_file(
        &mut self,
        key: &Key,
        path: &str,
        value: &Value,
        origin: &Origin,
    ) {
        let Ok(Value::String(file)) = Kind::Text.read(value, true) else {
            return self.complaints.push(format!("`{path}` in {origin}: expected a file name"));
        };
        match std::fs::read_to_string(&file) {
            Ok(text) if text.starts_with('\u{feff}') => self.complaints.push(format!(
                "`{path}` in {origin}: {file} begins with a byte order mark; save it as UTF-8 without one"
            )),
            Ok(text) => {
                let text = text.trim_end_matches(['\n', '\r']).to_owned();
                let source = Source { origin: origin.clone(), file: Some(file.into()) };
                self.put_key(key, &Value::String(text), source);
            }
            Err(error) => self.complaints.push(format!(
                "`{path}` in {origin}: cannot read {file}: {error}; check the name and its \
                 permissions"
            )),
        }
    }
}

/// Whether a value holds what nobody may see: an address without a password holds nothing.
pub(super) fn has_secret(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return !value.starts_with("sqlite:") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || value.contains("password=")
}

/// A doubt about a secret that others could read where it came from.
pub(super) fn seen_by_others(key: &Key, source: &Source) -> Option<Problem> {
    let (path, keys) = (key.path, &[key.path]);
    if let Some(file) = &source.file {
        return doubt_of(keys, &format!("`{path}`"), file);
    }
    match &source.origin {
        Origin::Flag => Some(Problem::doubt(
            keys,
            format!(
                "`{path}` is set on the command line, where every user of this machine can read \
                 it (ps); set `{path}_file` there instead, or the key in a file or in the \
                 environment"
            ),
        )),
        Origin::File { path: file, .. } => doubt_of(keys, &format!("`{path}`"), file),
        Origin::Env(_) => None,
    }
}
