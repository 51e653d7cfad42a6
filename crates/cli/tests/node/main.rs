//! `meshlock node` and the commands that talk to it, as an operator runs them: real processes on the loopback network.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

mod access;
mod admission;
mod api;
mod certificates;
mod cluster;
mod config;
mod doctor;
mod finding;
mod follow;
mod forwarding;
mod load;
mod locks;
mod moving;
mod operate;
mod otlp;
mod outage;
mod promise;
mod recovery;
mod runbook;
mod several;
mod site;
mod stateful_set;
mod up;
mod upgrade;
mod versions;
mod voters;
mod watch;
