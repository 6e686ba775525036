//! Stops servers when the program that started them ends: by Ctrl-C, a panic, or `kill -9`.
//!
//! The keeper is a child process that reads a pipe. The pipe's other end closes when the starter ends,
//! however it ends; then the keeper stops everything noted in the folder and removes it.

use std::env;
use std::io::{Read as _, Write as _, stdin};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use xtask::failure::{Explain, Outcome};
use xtask::server::{Note, fresh_folder};

/// The word that tells the keeper to leave everything as it is.
const RELEASE: &str = "release";

/// A folder for servers. Dropping it stops them all, and returns when they have stopped.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    child: Child,
}

impl Keeper {
    pub(crate) fn start() -> Outcome<Self> {
        let program = own_program()?;
        let folder = fresh_folder()?;
        let child = Command::new(program)
            .arg("keep")
            .arg(&folder)
            .stdin(Stdio::piped())
            // In a process group of its own, so that Ctrl-C does not reach it.
            .process_group(0)
            .spawn()
            .explain(|| "cannot start the process that stops the services".to_owned())?;
        Ok(Self { folder, child })
    }

    /// Where servers put their data and their notes.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves the services running.
    pub(crate) fn release(mut self) -> Outcome {
        let Some(pipe) = self.child.stdin.as_mut() else { return Ok(()) };
        pipe.write_all(RELEASE.as_bytes()).explain(|| "the keeper has ended".to_owned())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

/// `keep FOLDER`: what the child runs.
pub(crate) fn keep(folder: &Path) {
    let mut said = String::new();
    drop(stdin().read_to_string(&mut said));
    if said != RELEASE {
        Note::stop_all_and_remove(folder);
    }
}

/// This very program: its file may have been replaced by a build that it started itself, which the link
/// of Linux outlives.
fn own_program() -> Outcome<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { env::current_exe().explain(|| "own path".to_owned()) }
}
