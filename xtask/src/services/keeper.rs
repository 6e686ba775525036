//! Stops services when the program that started them ends: by Ctrl-C, a panic, or `kill -9`.
//!
//! The keeper is a child process that reads a pipe. The pipe's other end closes when the starter ends,
//! however it ends; then the keeper stops everything noted in the folder and removes it.

use std::env;
use std::io::{Read as _, Write as _, stdin};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::failure::{Explain, Outcome};

use super::folder::Folder;

/// The word that tells the keeper to leave everything as it is.
const RELEASE: &str = "release";

/// Holds the pipe. Dropping it stops the services, and returns when they have stopped.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    pub(crate) fn start(folder: &Folder) -> Outcome<Self> {
        let program = env::current_exe().explain(|| "own path".to_owned())?;
        let child = Command::new(program)
            .arg("keep")
            .arg(folder.path())
            .stdin(Stdio::piped())
            // In a process group of its own, so that Ctrl-C does not reach it.
            .process_group(0)
            .spawn()
            .explain(|| "cannot start the process that stops the services".to_owned())?;
        Ok(Self(child))
    }

    /// Leaves the services running.
    pub(crate) fn release(mut self) -> Outcome {
        let Some(pipe) = self.0.stdin.as_mut() else { return Ok(()) };
        pipe.write_all(RELEASE.as_bytes()).explain(|| "the keeper has ended".to_owned())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

/// `keep FOLDER`: what the child runs.
pub(crate) fn keep(folder: PathBuf) -> Outcome {
    let mut said = String::new();
    drop(stdin().read_to_string(&mut said));
    if said != RELEASE {
        Folder::create(folder)?.stop_and_remove();
    }
    Ok(())
}
