//! Waiting for something to become true, never for a time that should be enough.

use std::time::{Duration, Instant};

/// Long enough for anything that happens at all on a busy machine; a test that passes never waits it out.
pub const SOON: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is yes; panics with `what` at the deadline.
pub async fn eventually(deadline: Duration, what: &str, mut ask: impl AsyncFnMut() -> bool) {
    until_some(deadline, what, async || ask().await.then_some(())).await;
}

/// Asks until there is an answer, and returns it; panics with `what` at the deadline.
pub async fn until_some<T>(
    deadline: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < deadline, "not within {deadline:?}: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
