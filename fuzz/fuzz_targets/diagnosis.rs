//! What a site says of itself to whoever looks for what is wrong.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| meshlock_wire::fuzz::run("diagnosis", bytes));
