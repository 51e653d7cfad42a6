//! How many file descriptors this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns how many file descriptors this process may have open; `None` if there is no limit.
pub fn max_descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Lets this process have as many file descriptors open as the system allows it. The usual limit, 1024, is there for old programs, and every
/// connection takes one. Programs that are started from here inherit it.
pub fn raise_max_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If the system refuses, the process goes on with what it has.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
