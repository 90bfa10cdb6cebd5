//! The request that a task answers. An error is logged where it is found, deep in a handler or in a conversion: such a
//! line takes the request's id from here. The extractors note the client here, for the request log.

use http::HeaderValue;
use std::cell::OnceCell;
use std::sync::Arc;
use tokio::task::JoinError;

/// The id and the client of a request.
pub struct CurrentRequest {
    /// Its id.
    pub id: HeaderValue,
    /// The client that it has authenticated.
    pub client: OnceCell<Arc<str>>,
}

tokio::task_local! {
    static CURRENT: CurrentRequest;
}

/// Runs `future` as the request with this id. Returns what is known of the request at its end.
pub async fn scope<F: Future>(id: HeaderValue, future: F) -> (Option<CurrentRequest>, F::Output) {
    let current = CurrentRequest { id, client: OnceCell::new() };
    let mut scoped = std::pin::pin!(CURRENT.scope(current, future));
    let output = scoped.as_mut().await;
    (scoped.take_value(), output)
}

/// Runs `future` in a task of its own, as a part of the request. It runs to its end even if nobody waits for it any more.
pub async fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    let Ok(id) = CURRENT.try_with(|current| current.id.clone()) else { return tokio::spawn(future).await };
    let (current, output) = tokio::spawn(scope(id, future)).await?;
    if let Some(client) = current.and_then(|current| current.client.into_inner()) {
        note_client(client);
    }
    Ok(output)
}

/// The id of the request that is being answered, for a log line; none in a task of the server's own.
pub fn id() -> Option<String> {
    CURRENT.try_with(|current| current.id.to_str().unwrap_or_default().to_owned()).ok()
}

/// Notes the client that the request has authenticated.
pub fn note_client(client: impl Into<Arc<str>>) {
    // A request has one client. Outside of a request nobody asks for it.
    let _ = CURRENT.try_with(|current| current.client.set(client.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &'static str) -> HeaderValue {
        HeaderValue::from_static(id)
    }

    #[tokio::test]
    async fn id_and_client_belong_to_their_request_and_its_tasks() {
        let notes = async {
            tokio::task::yield_now().await;
            note_client("cli");
            id()
        };
        let spawns = async { spawn(notes).await.expect("ends") };
        let asks = async {
            tokio::task::yield_now().await;
            id()
        };
        let ((one, seen_by_one), (other, seen_by_other)) =
            tokio::join!(scope(of("one"), asks), scope(of("other"), spawns));
        assert_eq!((seen_by_one.as_deref(), seen_by_other.as_deref()), (Some("one"), Some("other")));
        let (one, other) = (one.expect("known"), other.expect("known"));
        assert_eq!((one.id, one.client.into_inner()), (of("one"), None));
        assert_eq!(other.client.into_inner().expect("noted").as_ref(), "cli");
        assert_eq!(id(), None);
    }
}
