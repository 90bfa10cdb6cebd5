//! Creates signing keys when they are due: at the start, before the first use of an algorithm, and periodically.

use crate::clock::Clock;
use identity::keys::{self, Algorithm};
use identity::secrets::{Random, SecretKey};
use std::sync::Arc;
use store::Store;

/// Creates signing keys. Clones share their state.
#[derive(Clone)]
pub(crate) struct KeyMaker {
    store: Store,
    secret_key: SecretKey,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl KeyMaker {
    pub(crate) fn new(
        store: Store,
        secret_key: SecretKey,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> KeyMaker {
        KeyMaker { store, secret_key, clock, random }
    }

    /// Creates a key if one is due. Generating it is slow and runs on its own thread.
    pub(crate) async fn renew(&self, algorithm: Algorithm) -> identity::Result<()> {
        let now = self.clock.now();
        if !self.store.point(move |snapshot| keys::is_due(snapshot, algorithm, now)).await? {
            return Ok(());
        }
        let maker = self.clone();
        let made = tokio::task::spawn_blocking(move || {
            keys::generate(algorithm, now, &*maker.random, &maker.secret_key)
        });
        let new =
            made.await.map_err(|error| identity::Error::Internal(format!("making a key: {error}")))??;
        self.store.write("key.add", move |tx| keys::add_if_due(tx, &new, now)).await
    }
}
