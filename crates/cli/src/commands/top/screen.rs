//! The terminal while `meshlock top` uses it. It is restored whatever happens.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

/// How often signals are checked at least.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The terminal's whole screen.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    /// The signals that would otherwise end the program before the terminal is restored.
    signals: SignalFd,
}

/// Returns the signals that end the program: the terminal must be restored first.
fn ending() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT])
}

/// Blocks these signals until they are read, in this thread and in those that it starts.
pub(super) fn hold_signals() -> anyhow::Result<()> {
    Ok(ending().thread_block()?)
}

impl Screen {
    /// Takes over the terminal. If the program panics, the terminal is restored before the panic is printed.
    pub(super) fn open() -> anyhow::Result<Self> {
        if !io::stdout().is_terminal() {
            anyhow::bail!(
                "`meshlock top` needs a terminal; without one, `meshlock top --once` prints one frame"
            );
        }
        let signals = SignalFd::with_flags(&ending(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let terminal = ratatui::try_init().context("the terminal cannot be used")?;
        Ok(Screen { terminal, signals })
    }

    pub(super) fn draw(&mut self, frame: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(frame).map(drop)
    }

    /// Waits up to this time for an event. A signal counts as Ctrl-C.
    pub(super) fn event(&mut self, within: Duration) -> anyhow::Result<Option<Event>> {
        if self.signals.read_signal()?.is_some() {
            return Ok(Some(Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL))));
        }
        if event::poll(within.min(LOOK_EVERY))? { Ok(Some(event::read()?)) } else { Ok(None) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
