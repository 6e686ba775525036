//! Secrets of senders, in files: read at the start, and again while it works, so that they change without a restart.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use service_kit::WebhookKey;

/// Most secrets in all files together.
const SECRETS_MAX: usize = 8;
/// What a file of secrets is never longer than.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The files, and what they held when they were last read.
#[derive(Debug)]
pub struct Secrets {
    files: Vec<PathBuf>,
    keys: Mutex<Arc<Vec<WebhookKey>>>,
}

impl Secrets {
    /// Reads files with a secret in each line.
    ///
    /// # Errors
    /// What is wrong with one of them, without a secret.
    pub fn open(files: Vec<PathBuf>) -> Result<Self, String> {
        let keys = Mutex::new(Arc::new(read_all(&files)?));
        Ok(Self { files, keys })
    }

    /// Reads them again. What cannot be used leaves what was there before.
    ///
    /// # Errors
    /// What is wrong with one of them, without a secret.
    pub fn refresh(&self) -> Result<(), String> {
        let keys = Arc::new(read_all(&self.files)?);
        *self.held() = keys;
        Ok(())
    }

    /// What they held.
    pub(crate) fn keys(&self) -> Arc<Vec<WebhookKey>> {
        Arc::clone(&self.held())
    }

    fn held(&self) -> MutexGuard<'_, Arc<Vec<WebhookKey>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_all(files: &[PathBuf]) -> Result<Vec<WebhookKey>, String> {
    let mut keys = Vec::new();
    for path in files {
        let before = keys.len();
        // Some editors put a byte order mark in front.
        let text = read_file(path)?;
        let text = text.trim_start_matches('\u{feff}');
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() {
                continue;
            }
            let key = WebhookKey::read(line);
            keys.push(key.map_err(|wrong| {
                format!("line {} of the secrets in {} {wrong}", at + 1, path.display())
            })?);
        }
        if keys.len() == before {
            return Err(format!("{} contains no secret", path.display()));
        }
    }
    if keys.len() > SECRETS_MAX {
        return Err(format!("there are {} secrets; at most {SECRETS_MAX} are allowed", keys.len()));
    }
    Ok(keys)
}

fn read_file(path: &Path) -> Result<String, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("cannot read the secrets in {}: {error}", path.display())
    };
    let file = fs::File::open(path).map_err(|error| wrong(&error))?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| wrong(&error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_change_while_their_file_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets");
        assert!(Secrets::open(vec![file.clone()]).unwrap_err().contains("cannot read"));
        let one = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
        fs::write(&file, one).unwrap();
        let secrets = Secrets::open(vec![file.clone()]).unwrap();
        assert_eq!(secrets.keys().len(), 1);
        fs::write(&file, format!("{one}\n{one}")).unwrap();
        secrets.refresh().unwrap();
        assert_eq!(secrets.keys().len(), 2);
        fs::write(&file, format!("\u{feff}{one}")).unwrap();
        secrets.refresh().unwrap();
        fs::write(&file, format!("{one}\n{one}")).unwrap();
        secrets.refresh().unwrap();
        fs::write(&file, "whsec_oops\n").unwrap();
        let error = secrets.refresh().unwrap_err();
        assert!(error.contains("line 1") && !error.contains("oops"), "{error}");
        assert_eq!(secrets.keys().len(), 2);
        fs::write(&file, "\n").unwrap();
        assert!(secrets.refresh().unwrap_err().contains("no secret"));
        fs::write(&file, one.repeat(9)).unwrap();
        assert!(secrets.refresh().unwrap_err().contains("at most 8 are allowed"));
    }
}
