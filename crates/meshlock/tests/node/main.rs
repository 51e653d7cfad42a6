//! `meshlock node` and the commands that ask it, as an operator runs them: real processes on the loopback network.

mod cluster;
mod config;
mod operate;
mod site;
mod up;
