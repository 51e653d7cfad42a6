//! The clients for Go, TypeScript, Python and Rust, as programs of their languages.
//!
//! | file | subject |
//! |---|---|
//! | `languages.rs` | how the programs of each language are built and run |
//! | `units.rs` | the tests that the clients for Go and TypeScript have themselves, with a node |
//! | `packages.rs` | what is in the packages for Python, TypeScript and Go |
//! | `cluster.rs` | three sites with APIs and doors for clients that can be killed and started again |
//! | `kills.rs` | the five examples of every language, while sites are killed |
//! | `takeover.rs` | a leader of every language whose site is killed, and the one that leads after it |
//! | `library.rs` | the library's client over TCP, whose site is killed or stopped |
//! | `judge.rs` | what must be true of the records that the examples leave |
//! | `docs.rs` | that `docs/clients.md` and `docs/fences.md` show what is in the files |
#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

mod cluster;
mod docs;
mod judge;
mod kills;
mod languages;
mod library;
mod packages;
#[allow(dead_code, reason = "its `main` is that of an example, which is not called here")]
#[path = "../../../meshlock/examples/side_by_side/main.rs"]
mod side_by_side;
#[allow(dead_code, reason = "shared with the tests of the node; each uses a part of it")]
#[path = "../node/site.rs"]
mod site;
mod takeover;
mod units;
