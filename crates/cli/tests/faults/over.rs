//! How clients learn that a test is over, at once, also while they rest.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What a client does before it wants in again: the pace of the load, not a wait for anything.
const REST: Duration = Duration::from_millis(150);

/// Whether it is over.
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

    /// Rests, unless it is over.
    pub(crate) fn rest(&self) {
        let (over, changed) = &*self.0;
        drop(changed.wait_timeout_while(over.lock().unwrap(), REST, |over| !*over).unwrap());
    }
}
