//! One file a subcommand: its arguments, what it does, what it prints.

pub(crate) mod algorithms;
pub(crate) mod bench;
pub(crate) mod ca;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod dst;
pub(crate) mod errata;
pub(crate) mod quorum;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod sim;
