//! The locks and atomics of the feed of changes and of what depends on it. A build with `--cfg shuttle` replaces them by
//! those of `shuttle`, which runs `schedules.rs` in many orders of its threads.

#[cfg(shuttle)]
pub(crate) use explored::{Mutex, RwLock};
#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, RwLock};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic;

/// Locks of `shuttle` with the methods of `parking_lot`.
#[cfg(shuttle)]
mod explored {
    use shuttle::sync::{self, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    use std::sync::PoisonError;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    pub(crate) struct RwLock<T>(sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> RwLock<T> {
            RwLock(sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
