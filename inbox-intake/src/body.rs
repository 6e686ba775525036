//! Bodies that arrive: nobody has shown yet who has sent them.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::Notify;

/// The first room of a body.
const ROOM_MIN: usize = 1024;

/// The bytes of all bodies that arrive in this process, so many and no more: where there are more, the one gives way that
/// has been arriving for longest.
#[derive(Debug)]
pub(crate) struct Arrivals {
    bytes_max: usize,
    all: Mutex<Vec<Arc<Arrival>>>,
}

/// What one body takes.
#[derive(Debug, Default)]
struct Arrival {
    bytes: AtomicUsize,
    /// It has to give way.
    over: Notify,
}

/// A body that arrives, or has arrived; what it takes is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Arriving<'a> {
    arrivals: &'a Arrivals,
    arrival: Arc<Arrival>,
}

/// Why a body is not read to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotRead {
    /// It has more bytes than it may have.
    TooLarge,
    /// Its sender broke off.
    Broken,
    /// Too much arrives.
    Crowded,
}

impl Arrivals {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, all: Mutex::default() }
    }

    /// One more body arrives.
    pub(crate) fn begin(&self) -> Arriving<'_> {
        let arrival = Arc::new(Arrival::default());
        self.all().push(Arc::clone(&arrival));
        Arriving { arrivals: self, arrival }
    }

    /// Counts more of a body, and has the oldest give way while that is too much. A single one may be larger.
    fn grow(&self, arrival: &Arc<Arrival>, bytes: usize) {
        arrival.bytes.fetch_add(bytes, Relaxed);
        let mut all = self.all();
        let sum = |all: &[Arc<Arrival>]| all.iter().map(|it| it.bytes.load(Relaxed)).sum::<usize>();
        while all.len() > 1 && sum(&all) > self.bytes_max {
            all.remove(0).over.notify_one();
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Arrival>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.arrivals.all().retain(|other| !Arc::ptr_eq(other, &self.arrival));
    }
}

impl Arriving<'_> {
    /// Reads a body to its end, into one piece of memory whatever pieces it comes in.
    pub(crate) async fn read(&self, body: Body, max: usize) -> Result<Bytes, NotRead> {
        tokio::select! {
            biased;
            () = self.arrival.over.notified() => Err(NotRead::Crowded),
            read = self.collect(body, max) => read,
        }
    }

    async fn collect(&self, mut body: Body, max: usize) -> Result<Bytes, NotRead> {
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| NotRead::Broken)?.into_data() else { continue };
            if data.len() > max - all.len() {
                return Err(NotRead::TooLarge);
            }
            let free = all.capacity() - all.len();
            if data.len() > free {
                let room = (all.capacity() * 2).max(all.len() + data.len()).max(ROOM_MIN).min(max);
                self.arrivals.grow(&self.arrival, room - all.capacity());
                all.reserve(room - all.len());
            }
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces of one byte, as whoever wants to fill memory sends it.
    fn pieces(bytes: usize) -> Body {
        let pieces = (0..bytes).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
        Body::from_stream(futures::stream::iter(pieces))
    }

    #[tokio::test]
    async fn a_body_takes_twice_its_bytes_at_most_whatever_pieces_it_comes_in() {
        let arrivals = Arrivals::new(usize::MAX);
        let arriving = arrivals.begin();
        let body = arriving.read(pieces(100_000), 1 << 20).await.unwrap();
        assert_eq!(body.len(), 100_000);
        let counted = arriving.arrival.bytes.load(Relaxed);
        assert!((100_000..=200_000).contains(&counted), "{counted}");
        let read = arrivals.begin().read(pieces(100), 99).await;
        assert_eq!(read, Err(NotRead::TooLarge));
    }

    #[tokio::test]
    async fn the_one_that_has_arrived_for_longest_gives_way() {
        let arrivals = Arrivals::new(10_000);
        let (first, second) = (arrivals.begin(), arrivals.begin());
        let held = || {
            let begun =
                futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![0; 6_000]))]);
            Body::from_stream(futures::StreamExt::chain(begun, futures::stream::pending()))
        };
        let mut oldest = Box::pin(first.read(held(), 1 << 20));
        assert!(futures::poll!(oldest.as_mut()).is_pending());
        let read = second.read(pieces(6_000), 1 << 20).await;
        assert_eq!(read.map(|body| body.len()), Ok(6_000));
        assert_eq!(oldest.await, Err(NotRead::Crowded));
        let alone = Arrivals::new(10);
        assert!(alone.begin().read(pieces(100), 1000).await.is_ok(), "nobody else is there");
    }
}
