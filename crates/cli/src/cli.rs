//! The arguments of `meshlock`, one type a subcommand.

use clap::{Parser, Subcommand};

use crate::commands::run::keeper;
use crate::commands::{
    algorithms, break_lock, ca, check, compare, complete, demo, dst, errata, lab, node, queue, quorum,
    reproduce, rules, run, sim, site, status, token, top, trace, up,
};
use crate::embedded;

/// Distributed mutual exclusion without a lock server.
#[derive(Debug, Parser)]
#[command(name = "meshlock", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0   done, and everything that was checked holds
  1   something that was checked does not hold, or the command failed
  2   an exploration reached its limit before its end
  64  the arguments or a file make no sense; the message says what would be right
  69  no node is reachable; the message says how to start one";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hold a lock while a command runs
    Run(run::Arguments),
    /// Run one site of a cluster
    Node(Box<node::Arguments>),
    /// Run a whole cluster on this machine, for trying things
    Up(up::Arguments),
    /// How a site is, and the cluster as it sees it
    Status(status::Arguments),
    /// The cluster as it lives: members, leases, locks, grants a second
    Top(top::Arguments),
    /// What a cluster does, as it does it, in the trace format
    Trace(trace::Arguments),
    /// Who holds a lock, who waits for it, and why
    Queue(queue::Arguments),
    /// Take a lock away from whoever holds it
    Break(break_lock::Arguments),
    /// Which algorithm each lock runs, changed while the cluster runs
    Rules(rules::Arguments),
    /// Who takes part, what a new site needs, and how one leaves
    Site(site::Arguments),
    /// Make the cluster's certificate authority, and certificates for its sites and clients
    Ca(ca::Arguments),
    /// Make tokens for clients that show no certificate
    Token(token::Arguments),
    /// Run every algorithm through a short contended run and print one table
    Demo(demo::Arguments),
    /// List the algorithms, or show one in detail
    Algorithms(algorithms::Arguments),
    /// Simulate one algorithm under load and measure it
    Sim(Box<sim::Arguments>),
    /// Sweep algorithms over load or size: a table, CSV, plots
    Compare(Box<compare::Arguments>),
    /// Run a paper's table or figure again: published, measured, error
    Reproduce(reproduce::Arguments),
    /// Explore every interleaving of a small run: does it hold, and if not, why
    Check(Box<check::Arguments>),
    /// Simulate whole clusters under faults and check that they stay safe
    Dst(dst::Arguments),
    /// What the papers get wrong, shown by machine: counterexample, repair, proof
    Errata(errata::Arguments),
    /// Build, check and analyse quorum systems
    Quorum(quorum::Arguments),
    /// See any algorithm run on a page of this machine: step it, break it, compare it
    Lab(lab::Arguments),
    /// Print what completes this command in a shell
    Completions(complete::Completions),
    /// Print the manual, or write its pages
    Man(complete::Man),
    /// What `run` starts to become the command
    #[command(name = run::start::NAME, hide = true)]
    StartHeld(run::start::Arguments),
    /// What `run` starts to keep a session with a node on another machine
    #[command(name = keeper::NAME, hide = true)]
    KeepSession(keeper::Arguments),
    /// What `run` starts where no node runs
    #[command(name = embedded::NAME, hide = true)]
    EmbeddedNode(embedded::Arguments),
}
