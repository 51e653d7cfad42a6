//! What tests of several crates share: waits that end, and tests that are skipped in the open.

mod skip;
mod wait;

pub use skip::{is_required, needs_program, needs_root, skip};
pub use wait::{WITHIN, eventually, eventually_async, eventually_some, first_some};
