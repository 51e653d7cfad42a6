//! What a name server answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| meshlock_wire::fuzz::run("srv", bytes));
