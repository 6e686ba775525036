//! What a webhook has in files: read at the start, and again while it works, so that secrets change without a
//! restart. A file that cannot be used any more leaves what it held before.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use reqwest::{
    Client,
    header::{HeaderName, HeaderValue},
};
use rustls::pki_types::CertificateDer;
use service_kit::WebhookKey;

use crate::{
    client,
    content::{Content, Held, Role, read_file},
    settings::Settings,
};

/// How often files are read again.
pub(crate) const READ_EVERY: Duration = Duration::from_secs(10);
/// How long a call waits for that; whoever hangs hangs by itself.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Most secrets in all files together: each makes the header of each call longer.
const SECRETS_MAX: usize = 8;

/// Told of a file that cannot be used any more: the webhook's name, and what is wrong.
pub(crate) type OnUnusable = fn(&str, String);

/// All files as they were read together, and the client that trusts them.
pub(crate) struct Snapshot {
    contents: Vec<Arc<Content>>,
    pub(crate) client: Client,
}

/// The files of one webhook.
pub(crate) struct Files {
    settings: Settings,
    on_unusable: OnUnusable,
    state: Mutex<State>,
}

struct State {
    current: Arc<Snapshot>,
    /// When they are read again; `None` while they are.
    next: Option<Instant>,
    /// What was told of each file.
    told: Vec<Option<String>>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.settings.files.iter().map(|(_, path)| path)).finish()
    }
}

impl Files {
    /// Reads them for the first time.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn open(settings: &Settings, on_unusable: OnUnusable) -> Result<Self, String> {
        let contents = read_all(settings)?;
        let client = client::build(settings, authority(&contents))?;
        let told = settings.files.iter().map(|_| None).collect();
        let current = Arc::new(Snapshot { contents, client });
        let state = State { current, next: Some(Instant::now() + READ_EVERY), told };
        Ok(Self { settings: settings.clone(), on_unusable, state: Mutex::new(state) })
    }

    /// What is wrong with them now.
    pub(crate) fn check(&self) -> Result<(), String> {
        client::build(&self.settings, authority(&read_all(&self.settings)?)).map(drop)
    }

    /// What they hold; they are read again when it is time for it.
    pub(crate) async fn current(self: &Arc<Self>) -> Arc<Snapshot> {
        let due = {
            let mut state = self.state();
            let due = state.next.is_some_and(|next| Instant::now() >= next);
            if due {
                state.next = None;
            }
            due && !self.settings.files.is_empty()
        };
        if due {
            let files = Arc::clone(self);
            let reading = tokio::task::spawn_blocking(move || files.refresh());
            let _ = tokio::time::timeout(READ_WAIT, reading).await;
        }
        Arc::clone(&self.state().current)
    }

    /// Has them read before the next call.
    pub(crate) fn expire(&self) {
        let mut state = self.state();
        state.next = state.next.map(|_| Instant::now());
    }

    /// Reads them again. A file that cannot be used keeps what it held, which is told once.
    fn refresh(&self) {
        let old = Arc::clone(&self.state().current);
        let mut contents = Vec::new();
        let mut told = Vec::new();
        for ((role, path), before) in self.settings.files.iter().zip(&old.contents) {
            let read = read_file(path).and_then(|bytes| {
                if bytes == before.bytes {
                    return Ok(Arc::clone(before));
                }
                Content::read(role, path, bytes).map(Arc::new)
            });
            told.push(read.as_ref().err().cloned());
            contents.push(read.unwrap_or_else(|_| Arc::clone(before)));
        }
        let same = |all: &[Arc<Content>]| {
            all.iter().zip(&old.contents).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        let snapshot =
            if same(&contents) { Ok(Arc::clone(&old)) } else { self.snapshot(contents, &old) };
        let mut state = self.state();
        match snapshot {
            Ok(snapshot) => state.current = snapshot,
            Err(error) => told.iter_mut().take(1).for_each(|first| *first = Some(error.clone())),
        }
        state.next = Some(Instant::now() + READ_EVERY);
        let before = std::mem::replace(&mut state.told, told.clone());
        drop(state);
        for error in told
            .into_iter()
            .zip(before)
            .filter(|(now, before)| now != before)
            .filter_map(|(now, _)| now)
        {
            (self.on_unusable)(&self.settings.name, error);
        }
    }

    fn snapshot(
        &self,
        contents: Vec<Arc<Content>>,
        old: &Snapshot,
    ) -> Result<Arc<Snapshot>, String> {
        count_secrets(&contents)?;
        let client = match (authority(&contents), authority(&old.contents)) {
            // Connections are kept where the authority is what it was.
            (new, old_authority) if new == old_authority => old.client.clone(),
            (new, _) => client::build(&self.settings, new)?,
        };
        Ok(Arc::new(Snapshot { contents, client }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    /// What calls are signed with.
    pub(crate) fn signing_keys(&self) -> impl Iterator<Item = &WebhookKey> {
        self.contents.iter().flat_map(|content| match &content.held {
            Held::Secrets(keys) => keys.as_slice(),
            _ => &[],
        })
    }

    /// The headers that files hold.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.contents.iter().filter_map(|content| match &content.held {
            Held::Header(name, value) => Some((name, value)),
            _ => None,
        })
    }

    /// What may be in no text.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.contents.iter().flat_map(|content| content.secrets.iter().map(String::as_str))
    }
}

fn read_all(settings: &Settings) -> Result<Vec<Arc<Content>>, String> {
    let read = |(role, path): &(Role, PathBuf)| {
        let content = read_file(path).and_then(|bytes| Content::read(role, path, bytes));
        content.map(Arc::new).map_err(|error| format!("`{}`: {error}", role.key()))
    };
    let contents = settings.files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    count_secrets(&contents)?;
    Ok(contents)
}

fn count_secrets(contents: &[Arc<Content>]) -> Result<(), String> {
    let count = contents.iter().map(|content| match &content.held {
        Held::Secrets(keys) => keys.len(),
        _ => 0,
    });
    let count: usize = count.sum();
    if count > SECRETS_MAX {
        return Err(format!(
            "the files of `webhooks.secret_files` contain {count} secrets; at most {SECRETS_MAX} \
             are allowed: remove old ones"
        ));
    }
    Ok(())
}

fn authority(contents: &[Arc<Content>]) -> Option<&[CertificateDer<'static>]> {
    contents.iter().find_map(|content| match &content.held {
        Held::Authority(certificates) => Some(certificates.as_slice()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fs};

    use super::*;
    use crate::webhook::Webhook;

    thread_local! {
        static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    const FIRST: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SECOND: &str = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0";

    struct Held {
        folder: tempfile::TempDir,
        files: Arc<Files>,
    }

    impl Held {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
            fs::write(path("secrets"), FIRST).unwrap();
            fs::write(path("token"), "one\n").unwrap();
            let webhook = Webhook {
                secret_files: vec![path("secrets")],
                bearer_file: Some(path("token")),
                ..Webhook::new("shop", "http://localhost/")
            };
            let settings = Settings::read(&webhook).0.unwrap();
            let tell = |name: &str, error| {
                TOLD.with_borrow_mut(|told| told.push(format!("{name}: {error}")));
            };
            let files = Arc::new(Files::open(&settings, tell).unwrap());
            Self { folder, files }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn snapshot(&self) -> Arc<Snapshot> {
            Arc::clone(&self.files.state().current)
        }

        fn token(&self) -> String {
            self.snapshot().headers().next().unwrap().1.to_str().unwrap().to_owned()
        }

        fn signatures(&self) -> Vec<String> {
            self.snapshot().signing_keys().map(|key| key.sign("id", "1", b"body")).collect()
        }

        /// What is told of another look.
        fn refresh(&self) -> Vec<String> {
            self.files.refresh();
            TOLD.take()
        }
    }

    fn signature(secret: &str) -> String {
        WebhookKey::read(secret).unwrap().sign("id", "1", b"body")
    }

    #[test]
    fn what_is_written_into_a_file_is_used_without_a_restart() {
        let held = Held::new();
        assert_eq!(
            (held.token(), held.signatures()),
            ("Bearer one".into(), vec![signature(FIRST)])
        );
        held.write("secrets", &format!("{SECOND}\n{FIRST}\n"));
        held.write("token", "two");
        assert_eq!(held.refresh(), [""; 0]);
        assert_eq!(held.token(), "Bearer two");
        assert_eq!(held.signatures(), [signature(SECOND), signature(FIRST)]);
    }

    #[test]
    fn a_file_that_cannot_be_used_keeps_what_it_held_and_is_told_once() {
        let held = Held::new();
        held.write("secrets", "whsec_new-c4n4ry");
        held.write("token", "two");
        let lines = held.refresh();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("shop: ") && lines[0].contains("is not base64"), "{lines:?}");
        assert!(!lines[0].contains("c4n4ry"), "{lines:?}");
        assert_eq!(
            (held.token(), held.signatures()),
            ("Bearer two".into(), vec![signature(FIRST)])
        );
        assert_eq!(held.refresh(), [""; 0]);
        fs::remove_file(held.folder.path().join("secrets")).unwrap();
        let lines = held.refresh();
        assert!(lines.len() == 1 && lines[0].contains("cannot read"), "{lines:?}");
        assert_eq!(held.refresh(), [""; 0]);
        assert_eq!(held.signatures(), [signature(FIRST)]);
        held.write("secrets", SECOND);
        assert_eq!(held.refresh(), [""; 0]);
        assert_eq!(held.signatures(), [signature(SECOND)]);
        held.write("secrets", "");
        assert_eq!(held.refresh().len(), 1);
        held.write("token", "\u{feff}three");
        let lines = held.refresh();
        assert!(lines.iter().any(|line| line.contains("byte order mark")), "{lines:?}");
        assert_eq!(held.token(), "Bearer two");
    }

    #[test]
    fn what_has_not_changed_is_not_read_into_anything_new() {
        let held = Held::new();
        let before = held.snapshot();
        held.refresh();
        assert!(Arc::ptr_eq(&before, &held.snapshot()));
    }

    #[tokio::test]
    async fn a_call_has_the_files_read_when_it_is_time() {
        let held = Held::new();
        held.write("token", "two");
        held.files.current().await;
        assert_eq!(held.token(), "Bearer one", "not yet");
        held.files.expire();
        held.files.current().await;
        assert_eq!(held.token(), "Bearer two");
        let next = held.files.state().next.unwrap();
        assert!(next > Instant::now() + READ_EVERY / 2);
    }
}
