//! What one caller's streams take of the server together: a user, or a network without a token.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// See the module.
#[derive(Default)]
pub(crate) struct Account {
    /// Subscriptions of all of its streams.
    pub(crate) subscriptions: AtomicUsize,
    /// Bytes of the answers that are kept for its live queries.
    answer_bytes: AtomicUsize,
}

/// Bytes of an answer that an account is charged for; dropping it gives them back.
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    /// Charges for an answer. `None` if the account would have more than `most` bytes then.
    pub(crate) fn charge(self: &Arc<Account>, bytes: usize, most: usize) -> Option<Charge> {
        let add = |now: usize| now.checked_add(bytes).filter(|after| *after <= most);
        self.answer_bytes.fetch_update(Relaxed, Relaxed, add).ok()?;
        Some(Charge { account: self.clone(), bytes })
    }
}

impl Charge {
    /// Who is charged.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.answer_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_given_back() {
        let account = Arc::new(Account::default());
        let first = account.charge(60, 100).expect("room");
        assert!(account.charge(41, 100).is_none());
        let second = account.charge(40, 100).expect("room for the rest");
        drop(first);
        assert!(account.charge(61, 100).is_none() && account.charge(60, 100).is_some());
        drop(second);
        assert!(account.charge(100, 100).is_some());
    }
}
