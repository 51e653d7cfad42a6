//! Detects connections that were cut instead of closed. TLS clients close a connection explicitly. If it breaks
//! without that, the client may not know and may go on relying on its locks for a while.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Calls `cut` once if the stream ends in an error. A missing TLS close message is an error too.
pub(super) struct CutDetector<S, F> {
    stream: S,
    cut: Option<F>,
}

impl<S, F: FnOnce() + Unpin> CutDetector<S, F> {
    pub(super) fn new(stream: S, cut: F) -> Self {
        CutDetector { stream, cut: Some(cut) }
    }

    fn check<T>(&mut self, came: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(_)) = came
            && let Some(cut) = self.cut.take()
        {
            cut();
        }
        came
    }
}

impl<S: AsyncRead + Unpin, F: FnOnce() + Unpin> AsyncRead for CutDetector<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.stream).poll_read(context, into);
        self.check(came)
    }
}

impl<S: AsyncWrite + Unpin, F: FnOnce() + Unpin> AsyncWrite for CutDetector<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use meshlock_testing::async_test;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A stream whose reads and writes all have the same result.
    struct Comes(Option<io::ErrorKind>);

    impl Comes {
        fn to<T>(&self, good: T) -> Poll<io::Result<T>> {
            Poll::Ready(self.0.map_or(Ok(good), |kind| Err(kind.into())))
        }
    }

    impl AsyncRead for Comes {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.to(())
        }
    }

    impl AsyncWrite for Comes {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.to(bytes.len())
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.to(())
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.to(())
        }
    }

    async fn cuts(comes: Comes) -> u32 {
        let cuts = Cell::new(0);
        let mut stream = CutDetector::new(comes, || cuts.set(cuts.get() + 1));
        let _ = stream.read(&mut [0]).await;
        let _ = stream.write_all(b"x").await;
        let _ = stream.flush().await;
        cuts.get()
    }

    #[test]
    fn an_error_is_told_from_an_end_and_told_once() {
        async_test(async {
            assert_eq!(cuts(Comes(None)).await, 0);
            assert_eq!(cuts(Comes(Some(io::ErrorKind::UnexpectedEof))).await, 1);
        });
    }
}
