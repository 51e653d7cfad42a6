//! Properties of every algorithm. These tests are one program, so that each algorithm is compiled into one test binary only.

mod any;
mod failures;
mod hostile;
mod lone_requests;
mod memory;
mod runs;
mod schedules;
mod spare_permits;
