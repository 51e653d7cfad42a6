//! `meshlock lab`: a page on this machine that shows any algorithm run.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;

use crate::output::{Outcome, Usage};

/// Arguments of `meshlock lab`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The port on loopback; any that is free if it is not given
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Do not open a browser; only print the address
    #[arg(long)]
    no_open: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(arguments, out));
    // An exploration that is under way for the page is not waited for.
    runtime.shutdown_background();
    outcome
}

async fn serve(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let listener = meshlock_lab::server::listen(arguments.port)
        .await
        .map_err(|error| Usage::new(format!("--port {}: cannot listen there: {error}", arguments.port)))?;
    let address = format!("http://{}/", listener.local_addr()?);
    writeln!(out, "{address}")?;
    out.flush()?;
    eprintln!("meshlock: the lab is at {address}; Ctrl-C ends it");
    if !arguments.no_open {
        open(&address);
    }
    tokio::select! {
        served = meshlock_lab::server::serve(listener) => served.context("the lab stopped")?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(Outcome::Done)
}

/// Asks the desktop to show the page. Where there is none, the address is printed anyway.
fn open(address: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.spawn().is_err() {
        eprintln!("meshlock: no browser could be started ({opener} is missing): open the address by hand");
    }
}
