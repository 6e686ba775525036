//! Bodies that arrive: nobody has shown yet who has sent them.

use std::{
    io::Read as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use flate2::bufread::GzDecoder;
use http_body_util::BodyExt as _;
use tokio::sync::Notify;

/// The first room of a body.
const ROOM_MIN: usize = 1024;
/// What is unpacked at once: then others may run, and the body gives way if it has to.
const PIECE: usize = 16 * 1024;

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
    /// Its sender broke off, or it is no gzip though it says so.
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
        self.unless_over(self.collect(body, max)).await
    }

    /// Unpacks a body of gzip. What comes out is counted as what arrives is, before it has a place; nothing more than
    /// `max` comes out.
    pub(crate) async fn unpack(&self, packed: &[u8], max: usize) -> Result<Bytes, NotRead> {
        self.unless_over(self.inflate(packed, max)).await
    }

    async fn unless_over<T>(
        &self,
        read: impl Future<Output = Result<T, NotRead>>,
    ) -> Result<T, NotRead> {
        tokio::select! {
            biased;
            () = self.arrival.over.notified() => Err(NotRead::Crowded),
            read = read => read,
        }
    }

    async fn collect(&self, mut body: Body, max: usize) -> Result<Bytes, NotRead> {
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| NotRead::Broken)?.into_data() else { continue };
            self.append(&mut all, &data, max)?;
        }
        Ok(all.freeze())
    }

    /// One member alone: empty ones, of twenty bytes each, would have a decoder begin anew very often.
    async fn inflate(&self, packed: &[u8], max: usize) -> Result<Bytes, NotRead> {
        let (mut all, mut piece) = (BytesMut::new(), vec![0; PIECE]);
        let mut decoder = GzDecoder::new(packed);
        loop {
            let read = decoder.read(&mut piece).map_err(|_| NotRead::Broken)?;
            if read == 0 {
                break;
            }
            self.append(&mut all, &piece[..read], max)?;
            tokio::task::yield_now().await;
        }
        if decoder.into_inner().is_empty() { Ok(all.freeze()) } else { Err(NotRead::Broken) }
    }

    /// Counts more bytes, and puts them behind the others.
    fn append(&self, all: &mut BytesMut, data: &[u8], max: usize) -> Result<(), NotRead> {
        if data.len() > max - all.len() {
            return Err(NotRead::TooLarge);
        }
        let free = all.capacity() - all.len();
        if data.len() > free {
            let room = (all.capacity() * 2).max(all.len() + data.len()).max(ROOM_MIN).min(max);
            self.arrivals.grow(&self.arrival, room - all.capacity());
            all.reserve(room - all.len());
        }
        all.extend_from_slice(data);
        Ok(())
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

    fn packed(bytes: usize) -> Vec<u8> {
        let mut packed = Vec::new();
        let zeros = vec![0; bytes];
        let mut encoder = flate2::bufread::GzEncoder::new(&zeros[..], flate2::Compression::best());
        encoder.read_to_end(&mut packed).unwrap();
        packed
    }

    #[tokio::test]
    async fn what_is_unpacked_is_bounded_and_counted_before_it_has_a_place() {
        let arrivals = Arrivals::new(usize::MAX);
        let bomb = packed(1 << 20);
        assert!(bomb.len() < 2_000, "{}", bomb.len());
        let arriving = arrivals.begin();
        assert_eq!(arriving.unpack(&bomb, 1 << 20).await.unwrap().len(), 1 << 20);
        assert_eq!(arriving.arrival.bytes.load(Relaxed), 1 << 20);
        let arriving = arrivals.begin();
        assert_eq!(arriving.unpack(&bomb, 100_000).await, Err(NotRead::TooLarge));
        assert!(arriving.arrival.bytes.load(Relaxed) <= 100_000, "no more than it may have");
        for broken in [&bomb[..bomb.len() - 1], &bomb[1..], b"", &[&bomb[..], &bomb[..]].concat()] {
            assert_eq!(arrivals.begin().unpack(broken, 4 << 20).await, Err(NotRead::Broken));
        }
    }

    /// What comes out of little takes its place among what arrives.
    #[tokio::test]
    async fn the_one_that_unpacks_for_longest_gives_way() {
        let arrivals = Arrivals::new(500_000);
        let bomb = packed(400_000);
        let (first, second) = (arrivals.begin(), arrivals.begin());
        let both = futures::join!(first.unpack(&bomb, 1 << 20), second.unpack(&bomb, 1 << 20));
        assert_eq!(both.0, Err(NotRead::Crowded));
        assert_eq!(both.1.map(|body| body.len()), Ok(400_000));
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
