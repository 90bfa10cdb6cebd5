//! The request that a task answers. An error is logged where it is found, deep in a handler or in a conversion: such a
//! line takes the request's id from here. The extractors note the client here, for the request log.

use http::HeaderValue;
use std::cell::{OnceCell, RefCell};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The id and the client of a request.
pub struct CurrentRequest {
    /// Its id.
    pub id: HeaderValue,
    /// The client that it has authenticated.
    pub client: OnceCell<Arc<str>>,
}

thread_local! {
    /// The request of the task that runs on this thread now.
    static CURRENT: RefCell<Option<CurrentRequest>> = const { RefCell::new(None) };
}

/// Runs `future` as the request with this id. Returns what is known of the request at its end.
pub async fn scope<F: Future>(id: HeaderValue, future: F) -> (Option<CurrentRequest>, F::Output) {
    let mut current = Some(CurrentRequest { id, client: OnceCell::new() });
    let output = Scoped { current: &mut current, future: pin!(future) }.await;
    (current, output)
}

/// A future that finds its request in [`CURRENT`] whenever it is polled. Like `tokio::task_local`, but it polls the
/// future in its place, which takes half the instructions.
struct Scoped<'a, F> {
    current: &'a mut Option<CurrentRequest>,
    future: Pin<&'a mut F>,
}

impl<F: Future> Future for Scoped<'_, F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Scoped { current, future } = &mut *self;
        let _entered = Entered::new(current);
        future.as_mut().poll(context)
    }
}

/// While this exists, the request is in [`CURRENT`]; then what was there before is back, also after a panic.
struct Entered<'a>(&'a mut Option<CurrentRequest>);

impl<'a> Entered<'a> {
    fn new(current: &'a mut Option<CurrentRequest>) -> Entered<'a> {
        swap(current);
        Entered(current)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        swap(self.0);
    }
}

fn swap(current: &mut Option<CurrentRequest>) {
    // A thread that ends polls nothing.
    let _ = CURRENT.try_with(|place| mem::swap(&mut *place.borrow_mut(), current));
}

fn with_current<T>(look: impl FnOnce(&CurrentRequest) -> T) -> Option<T> {
    CURRENT.try_with(|place| place.borrow().as_ref().map(look)).ok().flatten()
}

/// The id of the request that is being answered, for a log line; none in a task of the server's own.
pub fn id() -> Option<String> {
    with_current(|current| current.id.to_str().unwrap_or_default().to_owned())
}

/// Notes the client that the request has authenticated.
pub fn note_client(client: impl Into<Arc<str>>) {
    // A request has one client. Outside of a request nobody asks for it.
    with_current(|current| drop(current.client.set(client.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &'static str) -> HeaderValue {
        HeaderValue::from_static(id)
    }

    #[tokio::test]
    async fn id_and_client_belong_to_their_request() {
        let notes = async {
            tokio::task::yield_now().await;
            note_client("cli");
            id()
        };
        let asks = async {
            tokio::task::yield_now().await;
            id()
        };
        let ((one, seen_by_one), (other, seen_by_other)) =
            tokio::join!(scope(of("one"), asks), scope(of("other"), notes));
        let (one, other) = (one.expect("known"), other.expect("known"));
        assert_eq!((seen_by_one.as_deref(), seen_by_other.as_deref()), (Some("one"), Some("other")));
        assert_eq!((one.id, one.client.into_inner()), (of("one"), None));
        assert_eq!(other.client.into_inner().expect("noted").as_ref(), "cli");
        assert_eq!(id(), None);
    }
}
