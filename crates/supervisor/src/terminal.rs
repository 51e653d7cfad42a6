//! The terminal, if there is one, and which process group is in its foreground.
//!
//! CMD is a process group of its own, and only one group can read from a terminal. If `meshlock run` is alone in its group,
//! as a command that a person typed, CMD gets the foreground at once. In a pipeline or a script there are other processes in our
//! group that may need the foreground, too: then CMD gets it when it first uses the terminal, which the kernel shows by stopping
//! CMD. Until then Ctrl-C and Ctrl-Z reach our group, and we pass them on.

use std::fs::{self, File, OpenOptions};
use std::io;

use rustix::process::{Pid, getpgrp, getpid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that controls this session.
pub struct Terminal(File);

impl Terminal {
    /// Opens the terminal. There is none in a service or a cron job.
    pub fn open() -> Option<Self> {
        OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(Terminal)
    }

    /// Returns whether our own process group is in the foreground.
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|group| group == getpgrp())
    }

    /// Returns whether this process group is in the foreground.
    pub fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|foreground| foreground == group)
    }

    /// Puts a process group into the foreground. `SIGTTOU` must be blocked, as it is everywhere in `meshlock run`.
    pub fn give_to(&self, group: Pid) -> io::Result<()> {
        Ok(tcsetpgrp(&self.0, group)?)
    }
}

/// Returns whether our process is the only one in its process group.
pub fn alone_in_group() -> bool {
    if getpgrp() != getpid() {
        return false;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let ours = getpgrp().as_raw_nonzero().get();
    let in_ours = |text: &str| group_of(text) == Some(ours);
    let stats = processes
        .filter_map(|entry| {
            entry.ok().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        })
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|text| in_ours(text)).take(2).count() == 1
}

/// Parses the process group from `/proc/PID/stat`, in which the program's name can contain anything.
fn group_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_behind_a_name_that_looks_like_numbers() {
        assert_eq!(group_of("12 (a) 1 2 3) S 7 12 12 34816 12"), Some(12));
        assert_eq!(group_of("12 (sh) S"), None);
    }
}
