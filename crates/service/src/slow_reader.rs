//! Streams that are cut off when the client does not read them.
//!
//! gRPC buffers what the client has not read and stops polling the stream until there is room again, so a stalled
//! client would never be noticed. Here a separate task polls the stream and gives up when nothing has been read for
//! too long.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// The answers of a streaming call.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Number of answers that may be buffered before the timeout of a slow reader starts.
pub(crate) const MAX_BUFFERED: usize = 16;

/// The error at the end of a stream that was cut off.
pub(crate) fn too_slow(timeout: Duration) -> Status {
    crate::own::api_error(
        "slow_reader",
        tonic::Code::ResourceExhausted,
        format!(
            "what was sent has not been read for {} s, so the stream was ended; try again, and read faster",
            timeout.as_secs_f64()
        ),
    )
}

/// Passes `answers` on while the client reads them. If it reads nothing for `timeout`, `on_cut` is called and
/// `answers` is dropped.
pub(crate) fn while_read<T: Send + 'static>(
    mut answers: Answers<T>,
    timeout: Duration,
    on_cut: impl FnOnce() + Send + 'static,
) -> Answers<T> {
    let (out, waiting) = mpsc::channel(MAX_BUFFERED);
    let (cut_off, is_cut_off) = oneshot::channel();
    tokio::spawn(async move {
        loop {
            let answer = tokio::select! {
                answer = answers.next() => answer,
                () = out.closed() => return,
            };
            let Some(answer) = answer else { return };
            match out.send_timeout(answer, timeout).await {
                Ok(()) => {}
                Err(SendTimeoutError::Closed(_)) => return,
                Err(SendTimeoutError::Timeout(_)) => {
                    tracing::warn!("a client does not read what it is sent: it is cut off");
                    on_cut();
                    let _ = cut_off.send(too_slow(timeout));
                    return;
                }
            }
        }
    });
    Box::pin(stream::unfold((waiting, Some(is_cut_off)), |(mut waiting, mut is_cut_off)| async move {
        if let Some(answer) = waiting.recv().await {
            return Some((answer, (waiting, is_cut_off)));
        }
        let why = is_cut_off.take()?.await.ok()?;
        Some((Err(why), (waiting, None)))
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use meshlock_testing::{async_test, eventually_async};

    use super::*;

    fn endless(kept: Arc<()>) -> Answers<u64> {
        Box::pin(stream::unfold((0, kept), |(at, kept)| async move { Some((Ok(at), (at + 1, kept))) }))
    }

    #[test]
    fn a_reader_that_takes_nothing_is_cut_off_and_told_so_at_the_end() {
        async_test(async {
            let kept = Arc::new(());
            let mut answers = while_read(endless(kept.clone()), Duration::from_millis(1), || {});
            assert_eq!(answers.next().await.unwrap().unwrap(), 0);
            // The task ends without being polled by the reader.
            let is_over = || Arc::strong_count(&kept) == 1;
            eventually_async("the stream ends", tokio::time::sleep, is_over).await;
            let rest: Vec<_> = answers.collect().await;
            let (last, before) = rest.split_last().unwrap();
            assert!(before.len() <= MAX_BUFFERED + 1 && before.iter().all(Result::is_ok), "{before:?}");
            let why = last.as_ref().unwrap_err();
            assert!(why.message().starts_with("what was sent has not been read for 0.001 s"), "{why:?}");
        });
    }

    #[test]
    fn a_reader_that_reads_goes_on_and_nothing_is_asked_for_once_it_is_gone() {
        async_test(async {
            let kept = Arc::new(());
            let mut answers =
                while_read(endless(kept.clone()), Duration::from_hours(1), || unreachable!("it reads"));
            for at in 0..1000 {
                assert_eq!(answers.next().await.unwrap().unwrap(), at);
            }
            drop(answers);
            let is_over = || Arc::strong_count(&kept) == 1;
            eventually_async("the stream ends", tokio::time::sleep, is_over).await;
        });
    }
}
