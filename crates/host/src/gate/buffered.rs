//! The bytes that a site keeps for its clients, counted for each principal and for all of them: parts of messages that have not arrived
//! whole, and answers that were not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meshlock_cluster::access::Principal;

use super::TooMany;

/// Buffers up to this length are not counted: every connection has one, and the number of connections has a limit of its own.
const UNCOUNTED: usize = 4 << 10;

/// The bytes that a site keeps for all of its clients, and how many they may be.
#[derive(Debug)]
pub(super) struct BufferedTotal {
    pub(super) bytes: AtomicUsize,
    pub(super) max: usize,
}

impl Default for BufferedTotal {
    fn default() -> Self {
        BufferedTotal { bytes: AtomicUsize::new(0), max: 256 << 20 }
    }
}

/// One buffer for a client. Its length counts until this is dropped.
#[derive(Debug)]
pub struct Buffered {
    total: Arc<BufferedTotal>,
    of_principal: Arc<AtomicUsize>,
    max_of_principal: usize,
    principal: Principal,
    counted: AtomicUsize,
}

impl Buffered {
    pub(super) fn new(
        total: Arc<BufferedTotal>,
        (principal, of_principal, max_of_principal): (Principal, Arc<AtomicUsize>, usize),
    ) -> Self {
        Buffered { total, of_principal, max_of_principal, principal, counted: AtomicUsize::new(0) }
    }

    /// Records that the buffer has this length now. Fails if the client, or all clients, keep the site too busy; the length is recorded
    /// all the same. Of several threads only one may record at a time.
    pub fn resize(&self, bytes: usize) -> Result<(), TooMany> {
        let bytes = if bytes <= UNCOUNTED { 0 } else { bytes };
        let before = self.counted.swap(bytes, Ordering::Relaxed);
        if bytes <= before {
            let less = before - bytes;
            if less > 0 {
                self.of_principal.fetch_sub(less, Ordering::Relaxed);
                self.total.bytes.fetch_sub(less, Ordering::Relaxed);
            }
            return Ok(());
        }
        let more = bytes - before;
        let of_principal = self.of_principal.fetch_add(more, Ordering::Relaxed) + more;
        let of_all = self.total.bytes.fetch_add(more, Ordering::Relaxed) + more;
        if of_principal > self.max_of_principal {
            return Err(TooMany::BytesOfPrincipal { of: self.principal.clone(), max: self.max_of_principal });
        }
        if of_all > self.total.max {
            return Err(TooMany::Bytes { max: self.total.max });
        }
        Ok(())
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        // Becoming smaller never fails.
        let _ = self.resize(0);
    }
}
