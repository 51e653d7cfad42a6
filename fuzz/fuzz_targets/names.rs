//! Names, labels, addresses and specs of algorithms.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| meshlock_wire::fuzz::run("names", bytes));
