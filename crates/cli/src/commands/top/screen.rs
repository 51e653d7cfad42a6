//! The terminal, as long as `meshlock top` has it; whatever happens, it is given back as it was.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

/// A signal is looked for at least so often.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The terminal's whole screen.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    /// What would end the program before the terminal is given back.
    signals: SignalFd,
}

/// What ends the program: the terminal has to be given back first.
fn ending() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT])
}

/// Lets these signals wait until they are asked for, in this thread and those that it starts.
pub(super) fn hold_signals() -> anyhow::Result<()> {
    Ok(ending().thread_block()?)
}

impl Screen {
    /// Takes it. If the program panics it is given back before the panic is told.
    pub(super) fn open() -> anyhow::Result<Self> {
        if !io::stdout().is_terminal() {
            anyhow::bail!("this needs a terminal; `meshlock top --once` prints one frame without");
        }
        let signals = SignalFd::with_flags(&ending(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let terminal = ratatui::try_init().context("the terminal cannot be used")?;
        Ok(Screen { terminal, signals })
    }

    pub(super) fn draw(&mut self, frame: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(frame).map(drop)
    }

    /// What the user does within this time: a signal is as good as the key that ends it.
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
