//! SPIN on the Promela models in `benches/peers`, compiled for speed as its manual recommends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Subject;
use crate::measure::{Measured, timed};

/// The search order of SPIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Breadth first, like the explorer.
    Breadth,
    /// Depth first, which is its default.
    Depth,
}

pub(crate) fn is_installed() -> bool {
    let answers = |program: &str, word: &str| Command::new(program).arg(word).output().is_ok();
    answers("spin", "-V") && answers("gcc", "--version")
}

/// Compiles the model and measures its run: without partial-order reduction, which would leave out states, and with a hash
/// table of about one slot for each state.
pub(crate) fn run(subject: Subject, order: Order) -> Measured {
    let (file, bound, slots) = match subject {
        Subject::LamportMutex(clock) => {
            ("lamport_mutex.pml", format!("-DMAX={clock}"), if clock > 6 { 22 } else { 20 })
        }
        Subject::RicartAgrawala(entries) => {
            ("ricart_agrawala.pml", format!("-DENTRIES={entries}"), if entries > 2 { 23 } else { 18 })
        }
        Subject::Whole(..) => unreachable!("there is no such model"),
    };
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(file);
    let folder = Folder::new();
    timed(Command::new("spin").current_dir(&folder.0).arg("-a").arg(bound).arg(model));
    let breadth = (order == Order::Breadth).then_some("-DBFS");
    let flags = ["-O2", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=8000", "-o", "pan", "pan.c"];
    timed(Command::new("gcc").current_dir(&folder.0).args(breadth).args(flags));
    // -E: a state without a successor because of the bound on clocks is no error.
    let mut search = Command::new(folder.0.join("pan"));
    search.current_dir(&folder.0).args(["-E", "-m1000", &format!("-w{slots}")]);
    let (output, wall, cpu) = timed(&mut search);
    let is_whole = !output.contains("Search not completed") && !output.contains("depth too small");
    assert!(output.contains("errors: 0") && is_whole, "{output}");
    let states = number_before(&output, "states, stored");
    let mebibytes: f64 = number_before(&output, "total actual memory usage");
    Measured { states, wall, cpu, memory: mebibytes * 1024.0 * 1024.0, own_memory: None }
}

/// Returns the number before `words` on the same line.
fn number_before<T: FromStr>(output: &str, words: &str) -> T {
    let line = output.lines().find(|line| line.contains(words));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("SPIN says nothing of {words}: {output}"))
}

/// A temporary directory, which is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("meshlock-spin-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder for temporary files");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is a temporary directory: the system removes it at last.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
