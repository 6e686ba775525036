//! Doing one thing while another is waited for.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
};

use futures::future::MaybeDone;

/// Waits for `first`, and while it waits, does what can be done of `other`.
pub(super) async fn overlap<T>(
    mut other: Pin<&mut MaybeDone<impl Future>>,
    first: impl Future<Output = T>,
) -> T {
    let mut first = pin!(first);
    poll_fn(|cx| {
        let answer = first.as_mut().poll(cx);
        if answer.is_pending() {
            let _ = other.as_mut().poll(cx);
        }
        answer
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::future::{FutureExt as _, maybe_done};
    use tokio::sync::oneshot;

    use super::overlap;

    /// Else nothing would be decoded while the claim is waited for.
    #[test]
    fn what_is_waited_for_leaves_time_for_the_other() {
        let (done, answer) = oneshot::channel();
        let mut other = pin!(maybe_done(async move { done.send(7) }));
        let mut waited = pin!(overlap(other.as_mut(), async { answer.await.ok() }));
        assert!(waited.as_mut().now_or_never().is_none());
        assert_eq!(waited.now_or_never(), Some(Some(7)));
    }
}
