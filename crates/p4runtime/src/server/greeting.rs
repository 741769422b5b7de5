//! The first bytes of a connection. A connection that does not send them takes no room of a client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first bytes that a client of HTTP/2 sends.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose client has sent the preface, which is read from it again.
pub struct Greeted<S> {
    stream: S,
    again: &'static [u8],
}

/// Reads the first bytes of a connection. `None` if they are not those of HTTP/2.
pub async fn greet<S: AsyncRead + Unpin>(mut stream: S) -> Option<Greeted<S>> {
    let (mut room, mut count) = ([0; PREFACE.len()], 0);
    while count < PREFACE.len() {
        let mut rest = ReadBuf::new(&mut room[count..]);
        std::future::poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut rest)).await.ok()?;
        let seen = rest.filled();
        if seen.is_empty() || !PREFACE[count..].starts_with(seen) {
            return None;
        }
        count += seen.len();
    }
    Some(Greeted { stream, again: PREFACE })
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.again.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, to);
        }
        let (now, later) = self.again.split_at(self.again.len().min(to.remaining()));
        to.put_slice(now);
        self.again = later;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
