//! The folder of a pair of services: data, logs, and a note of every process, so that they can be
//! stopped by whoever comes later.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{Explain, Failure, Outcome};
use crate::folders;
use crate::process::Process;

/// One note is a file: `kafka.process`, `kafka.address`, ….
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

const PROCESS: &str = "process";
const ADDRESS: &str = "address";

impl Folder {
    pub(crate) fn create(path: PathBuf) -> Outcome<Self> {
        fs::create_dir_all(&path).explain(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Notes a process right after its start, and before anything can go wrong.
    pub(crate) fn note_process(&self, service: &str, process: &Process) -> Outcome {
        let text = serde_json::to_string(process).explain(|| "a process id".to_owned())?;
        self.note(service, PROCESS, &text)
    }

    pub(crate) fn note_address(&self, service: &str, address: &str) -> Outcome {
        self.note(service, ADDRESS, address)
    }

    fn note(&self, service: &str, kind: &str, text: &str) -> Outcome {
        let file = self.file(&format!("{service}.{kind}"));
        fs::write(&file, text).explain(|| format!("cannot write {}", file.display()))
    }

    fn read(&self, service: &str, kind: &str) -> Option<String> {
        fs::read_to_string(self.file(&format!("{service}.{kind}"))).ok()
    }

    fn process(&self, service: &str) -> Option<Process> {
        serde_json::from_str(&self.read(service, PROCESS)?).ok()
    }

    pub(crate) fn pid_of(&self, service: &str) -> u32 {
        self.process(service).map_or(0, |process| process.pid())
    }

    pub(crate) fn kafka_address(&self) -> Outcome<String> {
        self.address("kafka")
    }

    pub(crate) fn postgres_address(&self) -> Outcome<String> {
        self.address("postgres")
    }

    fn address(&self, service: &str) -> Outcome<String> {
        self.read(service, ADDRESS).ok_or_else(|| {
            Failure(format!("{} has no address of {service}: it never started", self.0.display()))
        })
    }

    /// Stops every process noted here, hard (the data goes too), and removes the folder.
    pub(crate) fn stop_and_remove(&self) {
        if let Some(kafka) = self.process("kafka") {
            kafka.stop("KILL", Duration::from_secs(10));
        }
        if let Some(postgres) = self.process("postgres") {
            // An immediate shutdown: the server's children end with it.
            postgres.stop("QUIT", Duration::from_secs(10));
        }
        drop(fs::remove_dir_all(&self.0));
    }

    /// The folder of the services that `up` left running, if both still run.
    pub(crate) fn left_up() -> Outcome<Option<Self>> {
        let Ok(path) = fs::read_to_string(note_of_left_up()?) else { return Ok(None) };
        let folder = Self(PathBuf::from(path));
        let alive = |service| folder.process(service).is_some_and(|process| process.alive());
        if alive("kafka") && alive("postgres") {
            return Ok(Some(folder));
        }
        println!("of the services left up, one has died; stopping the other");
        folder.stop_and_remove();
        Self::forget_left_up()?;
        Ok(None)
    }

    pub(crate) fn leave_up(&self) -> Outcome {
        let note = note_of_left_up()?;
        fs::write(&note, self.0.display().to_string())
            .explain(|| format!("cannot write {}", note.display()))
    }

    pub(crate) fn forget_left_up() -> Outcome {
        drop(fs::remove_file(note_of_left_up()?));
        Ok(())
    }
}

fn note_of_left_up() -> Outcome<PathBuf> {
    Ok(folders::cache()?.join("services-up"))
}
