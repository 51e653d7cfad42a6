//! Checks the order of the two locks at run time: the node's lock comes first, so whoever holds the registry must not
//! call the node. A temporary that is dropped a little later than it seems would be enough to break the order, and
//! two threads would deadlock.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::KeyAcquisition;
use super::registry::Registry;

thread_local! {
    /// How often this thread has the registry locked.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The locked registry.
pub(crate) struct RegistryGuard<'a>(MutexGuard<'a, Registry<Arc<KeyAcquisition>>>);

impl<'a> RegistryGuard<'a> {
    pub(super) fn lock(registry: &'a Mutex<Registry<Arc<KeyAcquisition>>>) -> Self {
        let guard = registry.lock().unwrap_or_else(PoisonError::into_inner);
        HELD.set(HELD.get() + 1);
        RegistryGuard(guard)
    }
}

impl Drop for RegistryGuard<'_> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

impl Deref for RegistryGuard<'_> {
    type Target = Registry<Arc<KeyAcquisition>>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for RegistryGuard<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Asserts that this thread does not hold the registry, so that the node may be called.
pub(super) fn assert_registry_is_free() {
    assert_eq!(HELD.get(), 0, "a thread that holds the registry must not call the node");
}
