//! Sudden death: a future that is dropped where it stands, as an isolate that is evicted drops all it was doing.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Runs `work` and drops it at the first suspended await at which `marker` is true; `None` where it died. A
/// marker that counts its calls visits each await in turn.
pub async fn die_when<F: Future>(mut marker: impl FnMut() -> bool, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if marker() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
