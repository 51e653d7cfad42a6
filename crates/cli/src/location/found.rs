//! Why a command uses the node that it uses.

use std::fmt;
use std::path::PathBuf;

/// What named a node, in the order in which commands look. Every command looks in the same order, and uses the first that names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// The command's arguments.
    Arguments,
    /// This environment variable.
    Variable(&'static str),
    /// This `client.toml`, of the user or of the machine.
    File(PathBuf),
    /// The machine has a node: this file is there.
    Machine(PathBuf),
    /// Nothing names a node, and this user runs only this one.
    OnlyOne,
    /// The same, and it is the first of several that `meshlock up` runs in this directory.
    FirstOfUp { dir: PathBuf, sites: usize },
    /// Nothing names a node, and no other runs: a node that `meshlock run` starts for this user.
    Embedded,
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoundBy::Arguments => f.write_str("named on the command line"),
            FoundBy::Variable(name) => write!(f, "named by the environment variable {name}"),
            FoundBy::File(path) => write!(f, "named in {}", path.display()),
            FoundBy::Machine(path) => write!(f, "the node of this machine, because {} is there", path.display()),
            FoundBy::OnlyOne => f.write_str("the only node that this user runs"),
            FoundBy::FirstOfUp { dir, sites } => {
                write!(f, "the first of the {sites} nodes of `meshlock up` in {}", dir.display())
            }
            FoundBy::Embedded => f.write_str(
                "a private node, because no other is configured or runs: only this user on this machine shares its locks",
            ),
        }
    }
}
