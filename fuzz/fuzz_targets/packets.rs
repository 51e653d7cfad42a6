//! Frames of packets between sites.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| meshlock_wire::fuzz::run("packets", bytes));
