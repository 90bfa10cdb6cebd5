//! A cache of device codes without a decision: most polls are for one of them and then need no SQL.
//!
//! A code is in the cache from its creation by this process until its decision or its end. A decided code is always
//! read from the database. With several instances on one database the cache is off, because a client that has received
//! a decision from one instance must not receive `authorization_pending` from another one.

use crate::devices::{self, NewDevice};
use crate::ids::{ClientId, DeviceId};
use crate::secrets::{self, Hash};
use crate::{Result, Time};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Cache, Filled, Store, Weigh};

/// Enough for those whose first poll comes at once; more would cost memory and serve only clients that poll late.
const CODES_MAX: usize = 1024;

/// The codes that wait. Clones share them.
#[derive(Clone)]
pub struct PendingDeviceCodes {
    store: Store,
    codes: Cache<DeviceId, Code>,
    /// Oldest first; some may have left the cache.
    newest: Arc<Mutex<VecDeque<DeviceId>>>,
}

#[derive(Clone)]
struct Code {
    hash: Hash,
    client: ClientId,
}

impl Weigh for Code {
    fn heap_bytes(&self) -> usize {
        self.client.heap_bytes()
    }
}

impl PendingDeviceCodes {
    /// Of this database; none is known yet.
    pub fn new(store: Store) -> PendingDeviceCodes {
        let newest = Arc::new(Mutex::new(VecDeque::with_capacity(CODES_MAX + 1)));
        PendingDeviceCodes { codes: store.cache("pending device codes"), newest, store }
    }

    /// Stores a new device authorization, and remembers it; see [`devices::begin`].
    pub async fn begin(&self, new: &Arc<NewDevice>) -> Result<()> {
        let (made, before) = (new.clone(), self.codes.position());
        self.store.write_batched("device.begin", move |tx| devices::begin(tx, &made)).await?;
        let value = Code { hash: new.hash, client: new.client.clone() };
        let keys = vec![devices::key(&new.id)];
        self.codes.insert(new.id.clone(), Filled { value, until: new.expires_at }, keys, before);
        let oldest = {
            let mut newest = self.newest.lock();
            newest.push_back(new.id.clone());
            if newest.len() > CODES_MAX { newest.pop_front() } else { None }
        };
        if let Some(oldest) = oldest {
            self.codes.remove(&oldest);
        }
        Ok(())
    }

    /// Whether this is a code of this client that nobody has decided about. False is no answer: ask the database.
    pub fn has(&self, id: &DeviceId, secret: &str, client: &ClientId, now: Time) -> bool {
        let code = self.codes.get(id, now);
        code.is_some_and(|code| secrets::matches(secret.as_bytes(), &code.hash) && code.client == *client)
    }
}
