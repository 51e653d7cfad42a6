//! The order of the two locks, held by a check instead of a promise: whoever has the registry never calls the node, whose lock comes
//! first. A temporary that lives a little longer than it seems is enough to break it, and two threads then wait for each other.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::KeyAcquisition;
use super::registry::Registry;

thread_local! {
    /// How often this thread has the registry.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The registry, for as long as this is there.
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

/// The node may be called now.
pub(super) fn assert_registry_is_free() {
    assert_eq!(HELD.get(), 0, "whoever has the registry never calls the node");
}
