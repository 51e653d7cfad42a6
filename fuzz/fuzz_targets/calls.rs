//! Calls of clients that members forward to each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| meshlock_wire::fuzz::run("calls", bytes));
