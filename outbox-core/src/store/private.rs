//! A file of SQLite that nobody else reads.

use std::{fs::OpenOptions, path::Path};

/// Makes the file if it is missing, for its owner alone, whatever the umask says; SQLite gives its `-wal` and
/// `-shm` the same permissions. One that is there keeps its own. What is wrong with the place SQLite says.
pub fn make(file: &Path) {
    if file.to_string_lossy().starts_with("file:") {
        return; // in memory
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(file);
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_that_is_made_is_its_owners_and_one_that_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        let mode = || file.metadata().unwrap().permissions().mode() & 0o777;
        super::make(&file);
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        super::make(&file);
        assert_eq!(mode(), 0o640);
        super::make(&folder.path().join("missing/a.db"));
    }
}
