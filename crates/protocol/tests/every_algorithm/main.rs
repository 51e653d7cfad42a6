//! What must hold for every algorithm, whatever it is: one program, so that each algorithm is compiled into one test
//! binary only.

mod any;
mod failures;
mod hostile;
mod lone_requests;
mod memory;
mod runs;
mod schedules;
mod spare_permits;
