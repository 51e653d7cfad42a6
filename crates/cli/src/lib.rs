//! The `meshlock` command: reads the arguments, runs one subcommand, turns its outcome into an exit code.
//!
//! Two programs are made of it: [`meshlock`](run_program) has all commands, [`meshlock-launcher`](run_launcher) only `run`.

mod cli;
mod cluster_watch;
mod commands;
mod embedded;
mod interrupt;
mod jobs;
mod launcher;
mod location;
mod output;
mod plot;
mod settings;

use std::io::{self, Write};
use std::process::ExitCode;

use cli::{Cli, Command};
use embedded::EmbeddedError;
pub use launcher::run_launcher;
use meshlock_client::ConnectionError;
use output::{CommandOutcome, Printable, UsageError};
use settings::places::PlaceError;

/// Exit code for a command that could not finish: an exploration reached its limit, or some sites did not answer.
const EXIT_UNFINISHED: u8 = 2;

/// Exit code for invalid arguments or files (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;

/// Exit code if no node is reachable (`EX_UNAVAILABLE`).
const EXIT_NO_NODE: u8 = 69;

/// Runs the program `meshlock`, with all commands.
pub fn run_program() -> ExitCode {
    // The supervisor of a command: it does without the whole command line.
    if let Some(code) = meshlock_supervisor::run_hidden() {
        return code;
    }
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe, as in `meshlock --help | head`, is not a failure.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            // The error repeats arguments, which a script may have taken from a file's name or from a message.
            let text = error.render().to_string();
            for line in text.lines() {
                let _ = writeln!(io::stderr(), "{}", Printable(line));
            }
            return ExitCode::from(EXIT_USAGE);
        }
    };
    conclude(|out| run(cli, out))
}

/// Runs a command, tells the user what is wrong, and returns the exit code.
fn conclude(command: impl FnOnce(&mut dyn Write) -> anyhow::Result<CommandOutcome>) -> ExitCode {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let result = command(&mut out).and_then(|outcome| Ok(out.flush().map(|()| outcome)?));
    match result {
        Ok(CommandOutcome::Done) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Refuted) => ExitCode::FAILURE,
        Ok(CommandOutcome::Unfinished) => ExitCode::from(EXIT_UNFINISHED),
        Ok(CommandOutcome::Exit(code)) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The error may contain what a node said, or a name that somebody else chose.
            eprintln!("meshlock: {}{}", Printable(format_args!("{error:#}")), hint(&error));
            exit_code(&error)
        }
    }
}

fn run(cli: Cli, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match cli.command {
        Command::Node(arguments) => commands::node::run(*arguments, out),
        Command::Up(arguments) => commands::up::run(&arguments, out),
        Command::Status(arguments) => commands::status::run(&arguments, out),
        Command::Doctor(arguments) => commands::doctor::run(&arguments, out),
        Command::Top(arguments) => commands::top::run(&arguments, out),
        Command::Trace(arguments) => commands::trace::run(&arguments, out),
        Command::Locks(arguments) => commands::locks::run(&arguments, out),
        Command::Queue(arguments) => commands::queue::run(&arguments, out),
        Command::Deadlocks(arguments) => commands::deadlocks::run(&arguments, out),
        Command::Break(arguments) => commands::break_lock::run(&arguments, out),
        Command::Access(arguments) => commands::access::run(&arguments, out),
        Command::Rules(arguments) => commands::rules::run(&arguments, out),
        Command::Site(arguments) => commands::site::run(&arguments, out),
        Command::Backup(arguments) => commands::backup::run(&arguments, out),
        Command::Restore(arguments) => commands::restore::run(&arguments, out),
        Command::Recover(arguments) => commands::recover::run(&arguments, out),
        Command::Completions(arguments) => commands::complete::completions(&arguments, out),
        Command::Man(arguments) => commands::complete::man(&arguments, out),
        Command::Demo(arguments) => commands::demo::run(&arguments, out),
        Command::Algorithms(arguments) => commands::algorithms::run(&arguments, out),
        Command::Sim(arguments) => commands::sim::run(&arguments, out),
        Command::Compare(arguments) => commands::compare::run(&arguments, out),
        Command::Reproduce(arguments) => commands::reproduce::run(&arguments, out),
        Command::Check(arguments) => commands::check::run(&arguments, out),
        Command::Prove(arguments) => commands::prove::run(&arguments, out),
        Command::Dst(arguments) => commands::dst::run(&arguments, out),
        Command::Errata(arguments) => commands::errata::run(&arguments, out),
        Command::Quorum(arguments) => commands::quorum::run(&arguments, out),
        Command::Lab(arguments) => commands::lab::run(&arguments, out),
        Command::Ca(arguments) => commands::ca::run(&arguments, out),
        Command::Token(arguments) => commands::token::run(&arguments, out),
        Command::Run(arguments) => commands::run::run(&arguments, out),
        Command::KeepSession(arguments) => commands::run::keeper::run(&arguments, out),
        Command::EmbeddedNode(arguments) => embedded::run(&arguments, out),
    }
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<UsageError>() {
        return ExitCode::from(EXIT_USAGE);
    }
    if error.is::<EmbeddedError>() || error.is::<commands::node::NoCluster>() {
        return ExitCode::from(EXIT_NO_NODE);
    }
    match (error.downcast_ref::<ConnectionError>(), error.downcast_ref::<PlaceError>()) {
        (Some(error), _) if error.is_unavailable() => ExitCode::from(EXIT_NO_NODE),
        (None, Some(PlaceError::NoNode(_))) => ExitCode::from(EXIT_NO_NODE),
        (None, Some(_)) => ExitCode::from(EXIT_USAGE),
        (Some(_), _) | (None, None) => ExitCode::FAILURE,
    }
}

/// Returns what the user can do about an error whose library does not know the command line.
fn hint(error: &anyhow::Error) -> &'static str {
    match error.downcast_ref::<ConnectionError>() {
        Some(ConnectionError::Nobody { .. }) => {
            " (`meshlock node` starts one; --socket and --node name another)"
        }
        Some(ConnectionError::Io { error, .. }) if error.kind() == io::ErrorKind::PermissionDenied => {
            " (whoever runs the node says with socket_mode in its configuration who may open its socket)"
        }
        Some(_) | None => "",
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    let in_json = |error: &serde_json::Error| error.io_error_kind() == Some(io::ErrorKind::BrokenPipe);
    error.downcast_ref::<io::Error>().is_some_and(broken)
        || error.downcast_ref::<serde_json::Error>().is_some_and(in_json)
}
