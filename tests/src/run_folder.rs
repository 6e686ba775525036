//! The folder for servers and children of this run. `cargo xtask test` stops everything noted in it
//! when it ends, even if a test was killed.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use xtask::server::fresh_folder;

/// The run's folder, or one of this process's own when a test is run by hand.
pub(crate) fn run_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| match env::var_os("INBOX_TEST_FOLDER") {
        Some(folder) => folder.into(),
        None => fresh_folder().unwrap_or_else(|failure| panic!("{failure}")),
    })
}

/// A name within the folder that nothing else of this run uses.
pub(crate) fn unique_name(stem: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{stem}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Removes what a server or child of this name left behind.
pub(crate) fn remove(name: &str) {
    let folder = run_folder();
    for end in ["process", "properties", "log"] {
        drop(std::fs::remove_file(folder.join(format!("{name}.{end}"))));
    }
    drop(std::fs::remove_dir_all(folder.join(name)));
}
