//! Interruption of long computations: the first Ctrl-C asks the computation to stop and show what it has done, the second one ends the
//! program at once.

use std::process;
use std::sync::{Arc, OnceLock};
use std::thread;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};

/// The signal that interrupted the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterruptSignal(Signal);

impl InterruptSignal {
    /// Returns the exit code of a program that this signal has ended, as a shell reports it.
    pub(crate) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.0 as i32).unwrap_or(u8::MAX)
    }
}

/// Says whether the user has interrupted the program.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<OnceLock<InterruptSignal>>);

impl Interrupt {
    /// Begins to watch for SIGINT and SIGTERM. They must not be handled by anything else in this process, and threads that are
    /// started later must inherit this thread's signal mask, as they do by default.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        signals.thread_block().context("signals cannot be blocked")?;
        let seen = Arc::new(OnceLock::new());
        let interrupt = Interrupt(seen.clone());
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                while let Ok(signal) = signals.wait() {
                    let signal = InterruptSignal(signal);
                    if seen.set(signal).is_err() {
                        process::exit(signal.exit_code().into());
                    }
                    eprintln!("meshlock: stopping; press Ctrl-C again to end at once");
                }
            })
            .context("no thread can be started")?;
        Ok(interrupt)
    }

    /// Returns the signal that interrupted the program, if there was one.
    pub(crate) fn signal(&self) -> Option<InterruptSignal> {
        self.0.get().copied()
    }
}
