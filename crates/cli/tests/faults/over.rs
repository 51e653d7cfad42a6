//! A flag that tells clients that the test is over, and wakes them from pauses.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The pause of a client between turns. It sets the load; nothing is waited for.
const REST: Duration = Duration::from_millis(150);

/// Whether the test is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Over(Arc<(Mutex<bool>, Condvar)>);

impl Over {
    pub(crate) fn is_so(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    pub(crate) fn set(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Pauses, unless the test is over.
    pub(crate) fn rest(&self) {
        let (over, changed) = &*self.0;
        drop(changed.wait_timeout_while(over.lock().unwrap(), REST, |over| !*over).unwrap());
    }
}
