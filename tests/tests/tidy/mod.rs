//! The architecture as a test: what text can prove about how the project is built up.
//!
//! Each rule is a function from the tree to sentences, one for each place that breaks it, and is itself
//! shown a tree that breaks it.

mod benchmarks;
mod commands;
mod deployment;
mod documents;
mod files;
mod imports;
mod kubernetes;
mod operations;
mod rooms;
mod rules;
mod source;
mod stores;
mod targets;
mod watching;

use std::fs;
use std::path::{Path, PathBuf};

use source::Source;

/// All files of the project, by their paths from its root.
#[derive(Default)]
struct Tree {
    files: Vec<(String, String)>,
}

impl Tree {
    /// The project as it is.
    fn here() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut tree = Self::default();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                tree.take(root, entry.path(), &mut folders);
            }
        }
        tree.files.sort();
        tree
    }

    fn take(&mut self, root: &Path, path: PathBuf, folders: &mut Vec<PathBuf>) {
        const NOT_OURS: [&str; 3] = [".git", ".services", "target"];
        let name = path.file_name().unwrap().to_string_lossy();
        if NOT_OURS.contains(&&*name) {
            return;
        }
        if path.is_dir() {
            folders.push(path);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            self.files.push((path, text));
        }
    }

    /// A tree of the given files, to show a rule.
    fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(owned).collect() }
    }

    fn sources(&self) -> Vec<Source> {
        let rust = |path: &str| Path::new(path).extension().is_some_and(|end| end == "rs");
        let files = self.files.iter().filter(|(path, _)| rust(path));
        let mut sources: Vec<Source> = files.map(|(path, text)| Source::new(path, text)).collect();
        let tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
        for source in &mut sources {
            source.is_test |= tests.iter().any(|test| source.path.starts_with(test));
        }
        sources
    }

    /// What is built for users: everything but tests.
    fn production(&self) -> impl Iterator<Item = Source> {
        self.sources().into_iter().filter(|source| !source.is_test)
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|(own, _)| own == path).map(|(_, text)| text.as_str())
    }
}

/// Fails with all sentences at once.
#[track_caller]
fn none(sentences: &[String]) {
    assert!(sentences.is_empty(), "\n\n{}\n", sentences.join("\n"));
}

/// Shows a rule a tree that breaks it: there is a sentence with each of these words.
#[track_caller]
fn shows(sentences: &[String], words: &[&str]) {
    for word in words {
        let found = sentences.iter().any(|sentence| sentence.contains(word));
        assert!(found, "no sentence speaks of {word:?}: {sentences:#?}");
    }
    assert_eq!(sentences.len(), words.len(), "more sentences than broken places: {sentences:#?}");
}
