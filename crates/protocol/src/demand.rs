//! What a process asks for when it requests: a mode, and a priority.
//!
//! In which modes two processes may be inside together:
//!
//! | | shared | upgradeable | exclusive |
//! |---|---|---|---|
//! | shared | yes | yes | no |
//! | upgradeable | yes | no | no |
//! | exclusive | no | no | no |
//!
//! A process in upgradeable mode reads, and may become exclusive without leaving. There is at most one, because two that
//! both wait for the other's end would wait for ever; for the same reason a process in shared mode cannot become exclusive.

use std::fmt;
use std::str::FromStr;

/// With whom a process is willing to be inside at the same time. Later ones admit fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Together with others that are shared, and with one that is upgradeable.
    Shared,
    /// Together with others that are shared; may become exclusive.
    Upgradeable,
    /// Alone. What every algorithm knows.
    #[default]
    Exclusive,
}

#[cfg(feature = "serde")]
crate::numbered! { Mode {
    0 => Shared,
    1 => Upgradeable,
    2 => Exclusive,
} }

impl Mode {
    /// All modes, from the one that admits most.
    pub const ALL: [Mode; 3] = [Mode::Shared, Mode::Upgradeable, Mode::Exclusive];

    /// Whether two processes may be inside together, one in each mode.
    pub const fn admits(self, other: Mode) -> bool {
        matches!(
            (self, other),
            (Mode::Shared, Mode::Shared | Mode::Upgradeable) | (Mode::Upgradeable, Mode::Shared)
        )
    }

    /// Whether a process that is inside in this mode may go on in the mode `to`: an upgrade to exclusive, or any downgrade.
    pub fn may_become(self, to: Mode) -> bool {
        to < self || (self, to) == (Mode::Upgradeable, Mode::Exclusive)
    }

    /// Its name in commands, configuration and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Shared => "shared",
            Mode::Upgradeable => "upgradeable",
            Mode::Exclusive => "exclusive",
        }
    }

    /// The letter by which papers and diagrams know it: S, U or X.
    pub const fn letter(self) -> char {
        match self {
            Mode::Shared => 'S',
            Mode::Upgradeable => 'U',
            Mode::Exclusive => 'X',
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no mode: it is shared, upgradeable or exclusive")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// How urgent a request is: the larger, the earlier it is served. An algorithm that knows priorities says how it keeps those with
/// small ones from waiting for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Priority(pub u8);

/// What a process asks for when it requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Demand {
    pub mode: Mode,
    pub priority: Priority,
}

impl Demand {
    /// What every algorithm knows: exclusive, with the priority of all others.
    pub const PLAIN: Demand = Demand { mode: Mode::Exclusive, priority: Priority(0) };

    /// A request in this mode, with the priority of all others.
    pub const fn of(mode: Mode) -> Self {
        Demand { mode, priority: Priority(0) }
    }

    /// The same with this priority.
    #[must_use]
    pub const fn with_priority(self, priority: u8) -> Self {
        Demand { mode: self.mode, priority: Priority(priority) }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mode)?;
        if self.priority == Priority(0) { Ok(()) } else { write!(f, ", priority {}", self.priority.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_with_readers_and_with_one_that_may_upgrade() {
        use Mode::{Exclusive, Shared, Upgradeable};
        let together: Vec<(Mode, Mode)> = Mode::ALL
            .into_iter()
            .flat_map(|one| Mode::ALL.map(|other| (one, other)))
            .filter(|(one, other)| one.admits(*other))
            .collect();
        assert_eq!(together, [(Shared, Shared), (Shared, Upgradeable), (Upgradeable, Shared)]);
        assert!(together.iter().all(|&(_, mode)| mode != Exclusive));
    }

    #[test]
    fn only_who_is_upgradeable_may_become_exclusive() {
        use Mode::{Exclusive, Shared, Upgradeable};
        assert!(Upgradeable.may_become(Exclusive) && !Shared.may_become(Exclusive));
        assert!(!Shared.may_become(Upgradeable) && !Shared.may_become(Shared));
        assert!(Exclusive.may_become(Upgradeable) && Exclusive.may_become(Shared));
    }

    #[test]
    fn a_mode_is_read_by_its_name() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        let error = "write".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, "'write' is no mode: it is shared, upgradeable or exclusive");
    }
}
