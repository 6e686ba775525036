//! A note of a started process beside its data, so that whoever comes later can stop it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Explain, Outcome};

use super::process::Process;

/// How long a process may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process, and how to end it in a hurry.
#[derive(Debug, Serialize, Deserialize)]
pub struct Note {
    process: Process,
    /// A signal's name, such as `KILL`.
    signal: String,
}

impl Note {
    /// Writes the note, right after the start and before anything else can go wrong.
    pub fn write(folder: &Path, name: &str, process: &Process, signal: &str) -> Outcome {
        let note = Self { process: process.clone(), signal: signal.to_owned() };
        let text = serde_json::to_string(&note).explain(|| "a note".to_owned())?;
        let file = path(folder, name);
        fs::write(&file, text).explain(|| format!("cannot write {}", file.display()))
    }

    /// The process noted under this name, if it is alive.
    pub fn read(folder: &Path, name: &str) -> Option<Process> {
        let note: Self =
            serde_json::from_str(&fs::read_to_string(path(folder, name)).ok()?).ok()?;
        Some(note.process).filter(Process::alive)
    }

    /// Ends every process noted in the folder, and removes the folder with all data.
    pub fn stop_all_and_remove(folder: &Path) {
        let entries =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in entries.filter(|path| path.extension().is_some_and(|end| end == "process")) {
            let text = fs::read_to_string(file).unwrap_or_default();
            if let Ok(note) = serde_json::from_str::<Self>(&text) {
                note.process.stop(&note.signal, PATIENCE);
            }
        }
        drop(fs::remove_dir_all(folder));
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.process"))
}
