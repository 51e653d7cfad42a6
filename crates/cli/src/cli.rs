//! The command line of `meshlock`, with one variant of [`Command`] for each subcommand.

use clap::{Parser, Subcommand};

use crate::commands::run::keeper;
use crate::commands::{
    access, algorithms, backup, break_lock, ca, check, compare, complete, deadlocks, demo, doctor, dst,
    errata, lab, locks, node, prove, queue, quorum, recover, reproduce, restore, rules, run, sim, site,
    status, token, top, trace, up,
};
use crate::embedded;

/// Distributed mutual exclusion without a lock server.
#[derive(Debug, Parser)]
#[command(name = "meshlock", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command line of `meshlock run` alone: to define all commands takes longer than to get a lock.
#[derive(Debug, Parser)]
#[command(name = "meshlock")]
struct OnlyRun {
    #[command(subcommand)]
    command: OnlyCommand,
}

#[derive(Debug, Subcommand)]
enum OnlyCommand {
    Run(run::Arguments),
}

impl Cli {
    /// Reads the arguments of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        match read_run() {
            Some(arguments) => Ok(Cli { command: Command::Run(arguments) }),
            // Whatever is not understood is read once more, for a message that knows of everything.
            None => Cli::try_parse(),
        }
    }
}

/// Reads the arguments of this process if they are a `meshlock run` without mistakes.
pub(crate) fn read_run() -> Option<run::Arguments> {
    if std::env::args_os().nth(1).is_none_or(|first| first != "run") {
        return None;
    }
    let OnlyRun { command: OnlyCommand::Run(arguments) } = OnlyRun::try_parse().ok()?;
    Some(arguments)
}

const AFTER_HELP: &str = "\
Examples:
  meshlock run jobs -- ./backup.sh  hold the lock 'jobs' while a command runs; needs no configuration
  meshlock up                       run a cluster of three sites on this machine
  meshlock lab                      see the algorithms run, in the browser

A cluster consists of sites, usually one per machine. `meshlock node` runs one site. Commands that need a node connect to
one, and all look for it in the same order; `meshlock run` starts one for this user if none is configured and none runs.

Exit codes:
  0   success, and everything that was checked holds
  1   something that was checked does not hold, or the command failed
  2   unfinished: an exploration reached its limit, or not all sites answered
  64  invalid arguments or an invalid file; the message says what is expected
  69  no node is reachable; the message says how to start one
`meshlock run --help` lists the exit codes of `run`.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hold a lock while a command runs
    Run(run::Arguments),
    /// Run one site of a cluster
    Node(Box<node::Arguments>),
    /// Run a whole cluster on this machine, to try things out
    Up(up::Arguments),
    /// Show the state of a site, and of the cluster as this site sees it
    Status(status::Arguments),
    /// Ask every site by itself, and say what is wrong with the cluster and what to do
    Doctor(doctor::Arguments),
    /// Watch a running cluster: members, leases, locks, grants per second
    Top(top::Arguments),
    /// Print what a running cluster does, one JSON line per event
    Trace(trace::Arguments),
    /// List all locks in use: who holds them and since when, how many wait; or print what happens to them
    Locks(locks::Arguments),
    /// Show who holds a lock, who waits for it, and why
    Queue(queue::Arguments),
    /// Name clients that wait for each other's locks, across the cluster
    Deadlocks(deadlocks::Arguments),
    /// Take a lock away from whoever holds it
    Break(break_lock::Arguments),
    /// Show or change which algorithm each lock runs, while the cluster runs
    Rules(rules::Arguments),
    /// Show or change who may do what in the whole cluster, who is revoked, and which sites may join
    Access(access::Arguments),
    /// List the sites, prepare the configuration of a new site, or remove a site
    Site(site::Arguments),
    /// Write the rules, voters, addresses and fence floor of a cluster to a file
    Backup(backup::Arguments),
    /// Give a running cluster the rules of a backup, and its access rules if it has some
    Restore(restore::Arguments),
    /// Make a stopped site the first of a new cluster, when most voters are gone for good
    Recover(recover::Arguments),
    /// Create the cluster's certificate authority, and certificates for its sites and clients
    Ca(ca::Arguments),
    /// Create tokens for clients that have no certificate
    Token(token::Arguments),
    /// Run every algorithm through a short contended run and print one table
    Demo(demo::Arguments),
    /// List the algorithms, or show one in detail
    Algorithms(algorithms::Arguments),
    /// Simulate one algorithm under load and measure it
    Sim(Box<sim::Arguments>),
    /// Compare algorithms over a range of loads or cluster sizes: a table, CSV, plots
    Compare(Box<compare::Arguments>),
    /// Reproduce a table or figure of a paper: published value, measured value, error
    Reproduce(reproduce::Arguments),
    /// Explore every interleaving of a small run; print a counterexample if a property fails
    Check(Box<check::Arguments>),
    /// Prove algorithms for every number of sites with z3 and cvc5, and compare their code with the models
    Prove(prove::Arguments),
    /// Simulate whole clusters under faults, by seed, and check that they stay safe
    Dst(dst::Arguments),
    /// List the errors found in the papers: counterexample, repair, proof by exploration
    Errata(errata::Arguments),
    /// Build, check and analyse quorum systems
    Quorum(quorum::Arguments),
    /// Open a page in the browser that shows any algorithm run: step it, break it, compare it
    Lab(lab::Arguments),
    /// Print the completion script for a shell
    Completions(complete::Completions),
    /// Print the manual page, or write the pages of all commands
    Man(complete::Man),
    /// The process that `run` starts to keep the session with a node on another machine
    #[command(name = keeper::NAME, hide = true)]
    KeepSession(keeper::Arguments),
    /// The node that `run` starts where none is running
    #[command(name = embedded::NAME, hide = true)]
    EmbeddedNode(embedded::Arguments),
}
