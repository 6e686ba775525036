//! The note of the services that `services up` left running.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use xtask::failure::{Explain, Outcome};
use xtask::server::{Note, Process};

use crate::folders;

/// Services that outlive the command that started them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LeftUp {
    pub(crate) folder: PathBuf,
    pub(crate) kafka: String,
    pub(crate) postgres: String,
}

impl LeftUp {
    /// The services left up, if both still run.
    pub(crate) fn find() -> Outcome<Option<Self>> {
        let Ok(text) = fs::read_to_string(file()?) else { return Ok(None) };
        let Ok(note) = serde_json::from_str::<Self>(&text) else { return Ok(None) };
        if note.process("kafka").is_some() && note.process("postgres").is_some() {
            return Ok(Some(note));
        }
        println!("of the services left up, one has died; stopping the other");
        note.stop()?;
        Ok(None)
    }

    pub(crate) fn process(&self, name: &str) -> Option<Process> {
        Note::read(&self.folder, name)
    }

    pub(crate) fn write(&self) -> Outcome {
        let text = serde_json::to_string(self).explain(|| "the note".to_owned())?;
        let file = file()?;
        fs::write(&file, text).explain(|| format!("cannot write {}", file.display()))
    }

    /// Stops both, removes their data, and forgets them.
    pub(crate) fn stop(&self) -> Outcome {
        Note::stop_all_and_remove(&self.folder);
        drop(fs::remove_file(file()?));
        Ok(())
    }
}

fn file() -> Outcome<PathBuf> {
    Ok(folders::cache()?.join("services-up.json"))
}
