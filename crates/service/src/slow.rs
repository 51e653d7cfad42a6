//! Streams whose readers may be slow, but not for ever.
//!
//! What a client does not take is kept by gRPC until the client makes room, and asks for nothing more meanwhile. So nobody would
//! notice that it never will. Here a task of its own asks, and gives up when nothing has been taken for too long.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// What a call streams.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// How many answers may wait for a reader before its patience counts.
pub(crate) const AHEAD: usize = 16;

/// That a client was cut off.
pub(crate) fn too_slow(patience: Duration) -> Status {
    crate::own::fault(
        "slow_reader",
        tonic::Code::ResourceExhausted,
        format!(
            "what was sent has not been read for {} s, so this is over; ask again, and read faster",
            patience.as_secs_f64()
        ),
    )
}

/// The same answers for as long as they are read. When they are not, `on_cut` is called, and `answers` dropped.
pub(crate) fn while_read<T: Send + 'static>(
    mut answers: Answers<T>,
    patience: Duration,
    on_cut: impl FnOnce() + Send + 'static,
) -> Answers<T> {
    let (out, waiting) = mpsc::channel(AHEAD);
    let (cut_off, is_cut_off) = oneshot::channel();
    tokio::spawn(async move {
        loop {
            let answer = tokio::select! {
                answer = answers.next() => answer,
                () = out.closed() => return,
            };
            let Some(answer) = answer else { return };
            match out.send_timeout(answer, patience).await {
                Ok(()) => {}
                Err(SendTimeoutError::Closed(_)) => return,
                Err(SendTimeoutError::Timeout(_)) => {
                    tracing::warn!("a client does not read what it is sent: it is cut off");
                    on_cut();
                    let _ = cut_off.send(too_slow(patience));
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

    use meshlock_testing::eventually_async;

    use super::*;

    fn endless(kept: Arc<()>) -> Answers<u64> {
        Box::pin(stream::unfold((0, kept), |(at, kept)| async move { Some((Ok(at), (at + 1, kept))) }))
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_cut_off_and_told_so_at_the_end() {
        let kept = Arc::new(());
        let mut answers = while_read(endless(kept.clone()), Duration::from_millis(1), || {});
        assert_eq!(answers.next().await.unwrap().unwrap(), 0);
        // What is streamed has to end by itself.
        let is_over = || Arc::strong_count(&kept) == 1;
        eventually_async("the stream ends", tokio::time::sleep, is_over).await;
        let rest: Vec<_> = answers.collect().await;
        let (last, before) = rest.split_last().unwrap();
        assert!(before.len() <= AHEAD + 1 && before.iter().all(Result::is_ok), "{before:?}");
        let why = last.as_ref().unwrap_err();
        assert!(why.message().starts_with("what was sent has not been read for 0.001 s"), "{why:?}");
    }

    #[tokio::test]
    async fn a_reader_that_reads_goes_on_and_nothing_is_asked_for_once_it_is_gone() {
        let kept = Arc::new(());
        let mut answers =
            while_read(endless(kept.clone()), Duration::from_hours(1), || unreachable!("it reads"));
        for at in 0..1000 {
            assert_eq!(answers.next().await.unwrap().unwrap(), at);
        }
        drop(answers);
        let is_over = || Arc::strong_count(&kept) == 1;
        eventually_async("the stream ends", tokio::time::sleep, is_over).await;
    }
}
