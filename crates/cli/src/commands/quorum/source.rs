//! The source of a family of sets: a construction with its arguments, or a file.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use meshlock_protocol::quorum::analysis::QuorumRule;
use meshlock_protocol::quorum::{BuildQuorumsError, MAX_SITES, QuorumSystem, votes};
use meshlock_protocol::{SiteId, SiteSet};
use serde::Deserialize;

use super::panels::Shape;
use crate::output::{UsageError, read_text};

/// The arguments that name a file or a construction.
#[derive(Debug, Args)]
pub(super) struct FamilySource {
    /// A file of sets, or '-' for standard input; without it, one of the constructions
    file: Option<PathBuf>,
    #[command(subcommand)]
    construction: Option<Construction>,
}

/// A construction of quorums.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum Construction {
    /// The lines of a projective plane: each of q²+q+1 sites has a set of q+1 sites
    Plane {
        /// The order q of the plane: a power of a prime
        #[arg(long)]
        order: usize,
    },
    /// The lines of the next larger plane, folded: small sets for any number of sites
    Folded {
        /// How many sites
        #[arg(long)]
        sites: usize,
    },
    /// For each site, its row and its column in a square, whose last row may be incomplete
    Grid {
        /// How many sites
        #[arg(long)]
        sites: usize,
    },
    /// Paths from the root to the leaves of a binary tree, around failed sites
    Tree {
        /// How many sites
        #[arg(long)]
        sites: usize,
        /// The sites that have failed, separated by commas
        #[arg(long, value_delimiter = ',', value_name = "SITES")]
        failed: Vec<u32>,
        /// Build the quorums around all possible failures
        #[arg(long, conflicts_with = "failed")]
        all: bool,
    },
    /// More than half of the sites: for each site, itself and the sites that follow it
    Majority {
        /// How many sites
        #[arg(long)]
        sites: usize,
        /// Build every majority, instead of one for each site
        #[arg(long)]
        all: bool,
    },
    /// The minimal sets with enough votes
    Votes {
        /// The votes of each site, separated by commas
        #[arg(long, value_delimiter = ',', required = true)]
        votes: Vec<u32>,
        /// How many votes are enough [default: more than half]
        #[arg(long)]
        quota: Option<u64>,
    },
}

/// A family of sets, with its title and how it is drawn.
#[derive(Debug)]
pub(super) struct QuorumFamily {
    pub(super) title: String,
    pub(super) system: QuorumSystem,
    pub(super) shape: Shape,
}

impl FamilySource {
    /// Returns the construction, if the source is one.
    pub(super) fn construction(&self) -> Option<&Construction> {
        self.construction.as_ref()
    }

    pub(super) fn family(&self) -> anyhow::Result<QuorumFamily> {
        match (&self.construction, &self.file) {
            (Some(_), Some(file)) => {
                let file = file.display();
                Err(UsageError::new(format!("give either the file '{file}' or a construction, not both"))
                    .into())
            }
            (Some(construction), None) => construction.family(),
            (None, Some(file)) => Ok(read(file)?),
            (None, None) => Err(UsageError::new(
                "give a file of sets ('-' for standard input) or a construction, such as 'plane --order 3'",
            )
            .into()),
        }
    }
}

impl Construction {
    pub(super) fn family(&self) -> anyhow::Result<QuorumFamily> {
        let system = self.system().map_err(as_error)?;
        Ok(QuorumFamily { title: self.to_string(), system, shape: self.shape() })
    }

    fn system(&self) -> Result<QuorumSystem, BuildQuorumsError> {
        match self {
            Construction::Plane { order } => QuorumSystem::plane(*order),
            Construction::Folded { sites } => QuorumSystem::folded_plane(*sites),
            Construction::Grid { sites } => QuorumSystem::grid(*sites),
            Construction::Tree { sites, all: true, .. } => QuorumSystem::whole_tree(*sites),
            Construction::Tree { sites, failed, all: false } => {
                QuorumSystem::tree(*sites, &failed_sites(*sites, failed)?)
            }
            Construction::Majority { sites, all: true } => QuorumSystem::all_majorities(*sites),
            Construction::Majority { sites, all: false } => QuorumSystem::majority(*sites),
            Construction::Votes { votes, quota } => QuorumSystem::votes(votes, quota_of(votes, *quota)),
        }
    }

    /// Returns the rule of the construction, if there is one that describes more sets than are listed, or than can be listed.
    pub(super) fn rule(&self) -> anyhow::Result<Option<QuorumRule>> {
        let rule = match self {
            Construction::Grid { sites } => QuorumRule::grid(*sites),
            Construction::Tree { sites, all: true, .. } => QuorumRule::tree(*sites),
            Construction::Majority { sites, all: true } => QuorumRule::majority(*sites),
            Construction::Votes { votes, quota } => QuorumRule::votes(votes.clone(), quota_of(votes, *quota)),
            Construction::Plane { .. }
            | Construction::Folded { .. }
            | Construction::Tree { all: false, .. }
            | Construction::Majority { all: false, .. } => return Ok(None),
        };
        Ok(Some(rule.map_err(as_error)?))
    }

    /// Returns whether every two sets intersect by construction. Only votes with a quota of half of them or less do not.
    pub(super) fn always_meets(&self) -> bool {
        match self {
            Construction::Votes { votes, quota } => quota_of(votes, *quota) >= votes::majority_of(votes),
            Construction::Plane { .. }
            | Construction::Folded { .. }
            | Construction::Grid { .. }
            | Construction::Tree { .. }
            | Construction::Majority { .. } => true,
        }
    }

    fn shape(&self) -> Shape {
        match self {
            Construction::Grid { .. } => Shape::Grid,
            Construction::Tree { failed, .. } => {
                Shape::Tree { failed: failed.iter().map(|&failed| site(failed)).collect() }
            }
            Construction::Plane { .. }
            | Construction::Folded { .. }
            | Construction::Majority { .. }
            | Construction::Votes { .. } => Shape::Circle,
        }
    }
}

impl fmt::Display for Construction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Construction::Plane { order } => write!(f, "projective plane of order {order}"),
            Construction::Folded { sites } => write!(f, "projective plane folded to {sites} sites"),
            Construction::Grid { sites } => write!(f, "grid of {sites} sites"),
            Construction::Tree { sites, all: true, .. } => {
                write!(f, "tree of {sites} sites, around any failures")
            }
            Construction::Tree { sites, failed, .. } if failed.is_empty() => {
                write!(f, "tree of {sites} sites")
            }
            Construction::Tree { sites, failed, .. } => {
                write!(f, "tree of {sites} sites, failed: {}", joined(failed))
            }
            Construction::Majority { sites, all: true } => write!(f, "all majorities of {sites} sites"),
            Construction::Majority { sites, all: false } => {
                write!(f, "majorities of {sites} sites, one each")
            }
            Construction::Votes { votes, quota } => {
                write!(f, "votes {} with a quota of {}", joined(votes), quota_of(votes, *quota))
            }
        }
    }
}

fn quota_of(votes: &[u32], quota: Option<u64>) -> u64 {
    quota.unwrap_or_else(|| votes::majority_of(votes))
}

fn site(number: u32) -> SiteId {
    SiteId::new(number as usize)
}

/// Returns the sites that failed, all of which must exist.
fn failed_sites(sites: usize, failed: &[u32]) -> Result<SiteSet, BuildQuorumsError> {
    // A set takes memory for its largest member, so the numbers are checked before the set is made.
    if sites > MAX_SITES {
        return Err(BuildQuorumsError::TooManySites(sites));
    }
    match failed.iter().map(|&failed| site(failed)).find(|site| site.index() >= sites) {
        Some(site) if sites > 0 => Err(BuildQuorumsError::NoSuchSite { site, sites }),
        Some(_) => Err(BuildQuorumsError::NoSites),
        None => Ok(failed.iter().map(|&failed| site(failed)).collect()),
    }
}

/// Converts the error of a construction. That no quorum is left is a result; all others are mistakes in the arguments.
fn as_error(error: BuildQuorumsError) -> anyhow::Error {
    if matches!(error, BuildQuorumsError::NoQuorumLeft(_)) {
        error.into()
    } else {
        UsageError::new(error).into()
    }
}

/// The document that `build --json` writes.
#[derive(Deserialize)]
struct Document {
    sites: Option<usize>,
    sets: Vec<Vec<usize>>,
}

/// Largest file that is read, in bytes: more than the largest family that can be built.
const MAX_FILE_BYTES: u64 = 64 << 20;

fn read(path: &Path) -> Result<QuorumFamily, UsageError> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let outcome = if path == Path::new("-") {
        read_text(std::io::stdin().lock(), MAX_FILE_BYTES)
    } else {
        File::open(path).and_then(|file| read_text(file, MAX_FILE_BYTES))
    };
    let mut text = outcome.map_err(|error| UsageError::new(format!("cannot read {name}: {error}")))?;
    let in_file = |why: String| UsageError::new(format!("{name}: {why}"));
    if text.trim_start().starts_with('{') {
        text = notation_of(&text)
            .map_err(|error| in_file(format!("not as 'build --json' writes it: {error}")))?;
    }
    let system = QuorumSystem::read(&text).map_err(|error| in_file(error.to_string()))?;
    Ok(QuorumFamily { title: name, system, shape: Shape::Circle })
}

fn notation_of(json: &str) -> Result<String, serde_json::Error> {
    let document: Document = serde_json::from_str(json)?;
    let line = |set: &Vec<usize>| set.iter().map(usize::to_string).collect::<Vec<_>>().join(".");
    let mut lines: Vec<String> = document.sites.iter().map(|sites| format!("sites {sites}")).collect();
    // Sets are joined by '/', so that an empty set is refused with its number; as a blank line it would be ignored.
    lines.extend([document.sets.iter().map(line).collect::<Vec<_>>().join("/")]);
    Ok(lines.join("\n"))
}
