//! The guarded counter: a resource that clients increment while they hold the lock, and that records what they do.
//!
//! ```text
//! DIR/counter    the resource: "read|write VALUE FENCE CLIENT TIME" a line; its state is its last line
//! DIR/turns      "enter FENCE CLIENT TIME UNTIL BESIDE" and "leave FENCE CLIENT TIME UNTIL OUTCOME" and
//!                "killed 0 HERD TIME 0 -"
//! DIR/inside/    a file for each that is inside, locked by it: the kernel unlocks it when its process ends
//! ```
//!
//! The resource handles one request at a time, as a database does, and refuses a fence below one that it has seen. An increment
//! takes two requests, a read and a write of the value plus one, so that an update can be lost. Each request is one small append,
//! which is complete or absent even if its process is killed.
//!
//! The files in `inside` show overlaps independently of the lock and of how a holder ends: a client that enters first creates and
//! locks its own file and then looks for others that are locked, so of two that overlap at least one sees the other.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use meshlock_cluster::time::Time;
use meshlock_system::now;

/// More bytes than any line of the resource has.
const MAX_LINE: u64 = 200;

/// `until` of a client whose lock does not expire.
pub(crate) const FOR_EVER: Time = Time::from_micros(u64::MAX);

/// The files of the counter.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    dir: PathBuf,
}

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The counter was incremented.
    Written,
    /// The write was refused because its fence was too old.
    Refused,
}

/// A client that is inside. Its file is unlocked when this is dropped or its process ends.
pub(crate) struct Inside<'a> {
    counter: &'a Counter,
    client: &'a str,
    fence: i64,
    until: Time,
    mark: PathBuf,
    _locked: File,
}

impl Counter {
    /// Creates a counter with value 0.
    pub(crate) fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir.join("inside")).unwrap();
        for file in ["counter", "turns"] {
            File::create(dir.join(file)).unwrap();
        }
        Counter::at(dir)
    }

    /// Opens an existing counter.
    pub(crate) fn at(dir: &Path) -> Self {
        Counter { dir: dir.to_owned() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the requests that the resource has handled, one a line.
    pub(crate) fn requests(&self) -> String {
        fs::read_to_string(self.dir.join("counter")).unwrap()
    }

    /// Returns the recorded turns, one a line.
    pub(crate) fn turns(&self) -> String {
        fs::read_to_string(self.dir.join("turns")).unwrap()
    }

    /// Begins a turn of `client`, which holds the lock alone until `until`.
    pub(crate) fn enter<'a>(&'a self, client: &'a str, fence: i64, until: Time) -> io::Result<Inside<'a>> {
        let mark = self.dir.join(format!("inside/{fence}"));
        let locked = File::create(&mark)?;
        // At most for as long as someone else looks at it.
        locked.lock()?;
        let mut beside = Vec::new();
        for other in fs::read_dir(self.dir.join("inside"))? {
            let other = other?.path();
            if other != mark && is_locked(&other) {
                beside.extend(other.file_name().and_then(|name| name.to_str()?.parse::<i64>().ok()));
            }
        }
        let beside = beside.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let beside = if beside.is_empty() { "nobody" } else { &beside };
        self.note(&format!("enter {fence} {client} {} {} {beside}\n", now().micros(), until.micros()))?;
        Ok(Inside { counter: self, client, fence, until, mark, _locked: locked })
    }

    /// Records that the clients whose names begin with `clients` are about to be killed. Their locks are free as soon as the kernel has
    /// closed their connections, perhaps a moment before it has unlocked their files.
    pub(crate) fn note_killed(&self, clients: &str) {
        self.note(&format!("killed 0 {clients} {} 0 -\n", now().micros())).unwrap();
    }

    fn note(&self, line: &str) -> io::Result<()> {
        File::options().append(true).open(self.dir.join("turns"))?.write_all(line.as_bytes())
    }

    /// Makes one request to the resource: `ask` gets the counter's value and returns the new one. `None` if the fence is too old.
    fn request(
        &self,
        kind: &str,
        client: &str,
        fence: i64,
        ask: impl FnOnce(u64) -> u64,
    ) -> io::Result<Option<u64>> {
        let mut file = File::options().read(true).append(true).open(self.dir.join("counter"))?;
        file.lock()?;
        let (value, newest) = last_of(&mut file)?;
        if fence < newest {
            return Ok(None);
        }
        let value = ask(value);
        let time = now().micros();
        file.write_all(format!("{kind} {value} {fence} {client} {time}\n").as_bytes())?;
        Ok(Some(value))
    }
}

impl Inside<'_> {
    /// Reads the counter.
    pub(crate) fn read(&self) -> io::Result<Option<u64>> {
        self.counter.request("read", self.client, self.fence, |value| value)
    }

    /// Writes the value that was read plus one, and ends the turn.
    pub(crate) fn write(self, read: Option<u64>) -> io::Result<Outcome> {
        let written = match read {
            Some(read) => self.counter.request("write", self.client, self.fence, |_| read + 1)?,
            None => None,
        };
        let (outcome, word) = match written {
            Some(_) => (Outcome::Written, "written"),
            None => (Outcome::Refused, "refused"),
        };
        let Inside { counter, client, fence, until, .. } = self;
        counter.note(&format!("leave {fence} {client} {} {} {word}\n", now().micros(), until.micros()))?;
        fs::remove_file(&self.mark)?;
        Ok(outcome)
    }
}

/// Returns whether a running process has locked this file.
fn is_locked(path: &Path) -> bool {
    // It may be gone by now.
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Returns the value and the fence of the last request.
fn last_of(file: &mut File) -> io::Result<(u64, i64)> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LINE)))?;
    let mut tail = String::new();
    file.read_to_string(&mut tail)?;
    let Some(line) = tail.lines().next_back() else { return Ok((0, 0)) };
    let words: Vec<&str> = line.split(' ').collect();
    Ok((words[1].parse().unwrap(), words[2].parse().unwrap()))
}
