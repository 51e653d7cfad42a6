//! `meshlock run` as a user runs it: real processes, real signals, a real node that the first of them starts.
//!
//! Nothing here waits by sleeping: a command prints that it is inside, and continues when it reads a line.
#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

mod exclusion;
mod exits;
mod loss;
mod network;
mod node;
mod programs;
mod signals;
mod terminal;
mod tree;
mod user;
mod which;
