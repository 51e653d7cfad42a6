//! What tests of several crates share: waits that end, and tests that are skipped in the open.
//!
//! | file | subject |
//! |---|---|
//! | `wait.rs` | waits for a condition, a future, a thread or a descriptor |
//! | `command.rs` | programs that are run to their end, and killed if that does not come |
//! | `lines.rs` | what a program or a connection says, line by line |
//! | `skip.rs` | tests that need root, a program or something of the kernel |
//!
//! No wait takes longer than [`WITHIN`]; what comes later panics with a message that says what was waited for.
//!
//! This crate isolates waiting by the machine's clock, and forbids every other crate of Meshlock as a dependency, so that the tests of all
//! of them can use it.

mod command;
mod lines;
mod skip;
mod wait;

pub use command::{BoundedChild, BoundedCommand};
pub use lines::{Lines, read_to_end};
pub use skip::{is_required, needs_program, needs_root, package_of, skip};
pub use wait::{
    Deadline, WITHIN, eventually, eventually_async, eventually_some, first_some, in_time, joined,
    until_readable,
};
