//! Files that hold what nobody else may read.

use std::path::Path;

use crate::Problem;

/// A doubt about a file with a secret that others on this machine may read. Only of a file that belongs to this
/// process's user: the platform mounts its own (Kubernetes as root's, 0644, into a container that nobody else
/// is in), and who runs this could not change their mode.
pub fn doubt_of(keys: &[&'static str], what: &str, file: &Path) -> Option<Problem> {
    let mode = open_to_others(file)?;
    let file = file.display();
    let text = format!(
        "{what} is in {file}, which other users of this machine may read (mode {mode:04o}); run: \
         chmod 600 {file}"
    );
    Some(Problem::doubt(keys, text))
}

/// The mode of a file of this process's user that its group or everybody may read.
#[cfg(unix)]
fn open_to_others(file: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(file).ok()?;
    // Where there is no such folder, nobody knows who this process is without asking the system in C.
    let own = std::fs::metadata("/proc/self").ok()?.uid();
    let mode = found.mode() & 0o7777;
    (found.is_file() && found.uid() == own && mode & 0o044 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> Option<u32> {
    None
}
