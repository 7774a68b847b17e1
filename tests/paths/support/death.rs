//! Sudden death: a future that is dropped where it stands, as an isolate that is evicted drops all it was doing.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Runs `work` for at most so many polls and drops it then; `None` where it died. Every await that suspends is one
/// poll, so counting up from 1 visits each of them.
pub async fn die_after<F: Future>(polls: usize, work: F) -> Option<F::Output> {
    let mut polled = 0;
    die_when(
        || {
            polled += 1;
            polled >= polls
        },
        work,
    )
    .await
}

/// Runs `work` and drops it at the first suspended await at which `marker` is true; `None` where it died.
pub async fn die_when<F: Future>(mut marker: impl FnMut() -> bool, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if marker() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
