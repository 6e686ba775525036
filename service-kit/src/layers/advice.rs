//! What a name that does not exist was probably meant to be.

use super::{Layers, Origin};
use crate::{Key, docs_url};

impl Layers {
    pub(super) fn unknown_section(&mut self, section: &str, origin: &Origin) {
        let complaint = if self.table.repeats(section) {
            format!(
                "`{section}` in {origin} is a list of tables: write [[{section}]] and its keys below"
            )
        } else if self.table.is_section(section) {
            format!("`{section}` in {origin} is a section: write [{section}] and its keys below")
        } else {
            let sections = self.table.keys.iter().map(Key::section);
            let advice = match nearest(section, sections) {
                Some(near) => format!("; did you mean [{near}]?"),
                None => self.advice_for_key(section),
            };
            format!("unknown section or key `{section}` in {origin}{advice}")
        };
        self.complaints.push(complaint);
    }

    pub(super) fn unknown_key(&self, path: &str, origin: &Origin) -> String {
        if matches!(path, "database.password" | "database.password_file") {
            return format!(
                "unknown key `{path}` in {origin}; the password is part of `database.url`, which `database.url_file` \
                 reads from a file"
            );
        }
        let advice = match nearest(path, self.table.keys.iter().map(|key| key.path)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => self.advice_for_key(path.rsplit('.').next().unwrap_or(path)),
        };
        format!("unknown key `{path}` in {origin}{advice}")
    }

    /// A key of that name in another section, else where all keys are listed.
    pub(super) fn advice_for_key(&self, name: &str) -> String {
        match self.table.keys.iter().find(|key| key.name() == name) {
            Some(key) => format!("; `{name}` belongs in [{}]", key.section()),
            None => format!(
                "; {} lists all keys; librdkafka settings go into [kafka.raw]",
                docs_url(self.table.page)
            ),
        }
    }
}

pub(super) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (wrong.rsplit('.').next().unwrap_or(wrong).len().div_ceil(3)).clamp(1, 3);
    known
        .map(|known| (strsim::damerau_levenshtein(wrong, known), known))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, known)| known)
}
