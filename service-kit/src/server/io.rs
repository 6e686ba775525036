//! A stream that says when nobody reads what is written to it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::places::Place;

/// A connection, whose place hears of it.
#[derive(Debug)]
pub(super) struct Watched {
    stream: TcpStream,
    place: Arc<Place>,
}

impl Watched {
    pub(super) fn new(stream: TcpStream, place: Arc<Place>) -> Self {
        Self { stream, place }
    }

    fn watch(&self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if wrote.is_pending() {
            self.place.stuck();
        }
        wrote
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.place.is_stuck() {
            // What it has not read is not kept for it.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(wrote)
    }

    /// Asked for once everything is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.place.sent();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
