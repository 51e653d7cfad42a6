//! The subcommands, one module each: its arguments, what it does, and what it prints.

pub(crate) mod algorithms;
pub(crate) mod break_lock;
pub(crate) mod ca;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod complete;
pub(crate) mod demo;
pub(crate) mod dst;
pub(crate) mod errata;
pub(crate) mod lab;
pub(crate) mod node;
pub(crate) mod queue;
pub(crate) mod quorum;
pub(crate) mod reproduce;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod site;
pub(crate) mod status;
pub(crate) mod target;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod up;

pub(crate) use status::standing;
