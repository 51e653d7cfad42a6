//! What a site says of its cluster.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| meshlock_wire::fuzz::run("introduction", bytes));
