//! What tests of several crates share: waits that end, tests that are skipped in the open, and addresses of their own.
//!
//! | file | subject |
//! |---|---|
//! | `alone.rs` | tests that measure their process, and so need one of their own |
//! | `bounded.rs` | whole tests with a limit, and loops with a limited number of steps |
//! | `wait.rs` | waits for a condition, a future, a thread or a descriptor |
//! | `command.rs` | programs that are run to their end, and killed if that does not come |
//! | `lines.rs` | what a program or a connection says, line by line |
//! | `loopback.rs` | addresses that no other test has |
//! | `skip.rs` | tests that need root, a program or something of the kernel |
//!
//! No wait takes longer than [`WITHIN`], and no whole test longer than [`TEST_LIMIT`]; what comes later panics with a message that says
//! what was waited for.
//!
//! This crate isolates waiting by the machine's clock, and forbids every other crate of Meshlock as a dependency, so that the tests of all
//! of them can use it.

mod alone;
mod bounded;
mod command;
mod lines;
mod loopback;
mod skip;
mod wait;

pub use alone::in_own_process;
pub use bounded::{TEST_LIMIT, async_test, blocking_test, within_steps};
pub use command::{BoundedChild, BoundedCommand};
pub use lines::{Lines, read_to_end};
pub use loopback::{Loopback, connect_from, silent_connections};
pub use skip::{demand, is_required, missing_program, needs_program, needs_root, package_of, skip};
pub use wait::{
    Deadline, WITHIN, eventually, eventually_async, eventually_some, first_some, in_time, joined,
    until_readable,
};
