//! What a command is given from outside: time, randomness, ids, and the values of the app.

use crate::app::Registry;
use crate::background::State;
use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use store::Time;

/// What a mutation is given from outside, the same each time that it runs.
pub struct Given {
    /// Now.
    pub now: Time,
    random: [u8; 32],
    drawn: Cell<u64>,
    state: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Given {
    pub(crate) fn new(now: Time, random: [u8; 32], registry: &Registry) -> Given {
        Given::with_state(now, random, registry.state.clone())
    }

    /// For commands that are not an app's: without a state. `random` is drawn for each command.
    pub fn at(now: Time, random: [u8; 32]) -> Given {
        Given::with_state(now, random, State::default())
    }

    pub(crate) fn with_state(now: Time, random: [u8; 32], state: State) -> Given {
        Given { now, random, drawn: Cell::new(0), state }
    }

    /// Random bytes. Each call returns others; a command that runs again gets the same ones in the same order.
    pub fn random(&self) -> [u8; 32] {
        let number = self.drawn.replace(self.drawn.get() + 1);
        let mut input = [0; 40];
        input[..32].copy_from_slice(&self.random);
        input[32..].copy_from_slice(&number.to_be_bytes());
        sha256(&input)
    }

    /// A new id such as `user_01jd3…`: the time, then randomness, so that later ids are greater.
    pub fn id(&self, prefix: &str) -> String {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let random = self.random();
        let millis = self.now.millis().unsigned_abs();
        let mut text = String::with_capacity(prefix.len() + 27);
        text.push_str(prefix);
        text.push('_');
        for shift in (0..10).rev() {
            text.push(char::from(LETTERS[(millis >> (shift * 5) & 31) as usize]));
        }
        for byte in random.iter().take(16) {
            text.push(char::from(LETTERS[usize::from(byte & 31)]));
        }
        text
    }

    /// What was given to [`crate::App::with`].
    pub fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        state_of(&self.state)
    }
}

pub(crate) fn state_of<T: Any + Send + Sync>(
    state: &HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
) -> Option<Arc<T>> {
    state.get(&TypeId::of::<T>()).cloned()?.downcast().ok()
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    hash
}

pub(crate) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        // Without randomness nothing here is safe: better no answer than a guessable secret.
        std::process::abort();
    }
    bytes
}
