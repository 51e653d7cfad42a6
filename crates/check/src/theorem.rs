//! Sanders' theorem, checked by machine: every information structure of three sites is explored.
//!
//! The theorem (section 4) says which structures ensure mutual exclusion: if every site keeps track of itself, exactly those that
//! satisfy conditions a and b. For three sites there are 729 structures in which a site asks at least the sites that it informs; each
//! is explored whether the theorem allows it or not. Those that the theorem allows must hold; for each other one there must be
//! a schedule that lets two in.

use meshlock_protocol::algorithms::sanders::Sanders;
use meshlock_protocol::information::InformationStructure;
use meshlock_protocol::information::theorem::Flaw;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Described, SiteId, SiteSet};

use crate::{Bounds, Properties, Property, Report, Verdict, explore};

/// The number of structures: each of the six ordered pairs is in one of three relations.
pub const STRUCTURES: usize = 729;

/// The structure of three sites with this `number`, from 0 to 728: each of the six ordered pairs is unrelated, asked, or
/// asked and informed. Every site informs and asks itself.
pub fn structure(number: usize) -> InformationStructure {
    let relation = |i: SiteId, k: SiteId| {
        let pair = 2 * i.index() + k.index() - usize::from(k > i);
        number / 3_usize.pow(u32::try_from(pair).expect("below six")) % 3
    };
    InformationStructure::from_fn(3, |i| {
        let related = |least: usize| -> SiteSet {
            SiteId::all(3).filter(|&k| k == i || relation(i, k) >= least).collect()
        };
        (related(2), related(1))
    })
}

/// One structure: what the theorem says of it, and what the exploration found.
#[derive(Clone, Debug)]
pub struct JudgedStructure {
    pub structure: InformationStructure,
    /// The first condition of the theorem that it violates.
    pub flaw: Option<Flaw>,
    pub report: Report,
}

impl JudgedStructure {
    /// Whether machine and theorem agree: a structure that satisfies the theorem is safe and live, any other lets two in.
    pub fn agrees(&self) -> bool {
        match self.flaw {
            None => self.report.verdict == Verdict::Holds,
            Some(_) => self.report.verdict.property() == Some(Property::Exclusion),
        }
    }
}

/// Each site enters once. Fences are left out: they add states, and fall back only where two are inside.
pub(crate) fn bounds() -> Bounds {
    Bounds::new(3, 1).checking(Properties::all().without(Property::Fences))
}

/// Explores one structure within `bounds`, under the rules `deadlock` (an option of `sanders`).
pub fn judge(structure: InformationStructure, deadlock: &str) -> JudgedStructure {
    let mut values = Values::defaults(&Sanders::INFO);
    for (name, value) in
        [("structure", structure.to_string().as_str()), ("force", "yes"), ("deadlock", deadlock)]
    {
        values.set(name, value).expect("an option of the algorithm");
    }
    let report = explore::<Sanders>(&bounds(), &values).expect("three sites, one permit");
    JudgedStructure { flaw: structure.check().err(), structure, report }
}
