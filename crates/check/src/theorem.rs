//! Sanders' theorem, checked by machine: every information structure of three sites is explored.
//!
//! The theorem (section 4) says which structures ensure mutual exclusion: if every site keeps track of itself, exactly those that
//! satisfy conditions a and b. For three sites there are 729 structures in which a site asks at least the sites that it informs; each
//! is explored whether the theorem allows it or not. Those that the theorem allows must hold; for each other one there must be
//! a schedule that lets two in.
//!
//! Her footnote has conditions that suffice where some site does not keep track of itself. Of those structures, too, each is explored.

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

/// The structures of three sites of which only the footnote says that they exclude: in each, some site does not keep track of itself.
pub fn of_footnote() -> impl Iterator<Item = InformationStructure> {
    let relation = |number: usize, i: SiteId, k: SiteId| {
        let pair = u32::try_from(3 * i.index() + k.index()).expect("below nine");
        number / 3_usize.pow(pair) % 3
    };
    let any = move |number: usize| {
        InformationStructure::from_fn(3, |i| {
            let related = |least: usize| -> SiteSet {
                SiteId::all(3).filter(|&k| relation(number, i, k) >= least).collect()
            };
            (related(2), related(1))
        })
    };
    let forgets =
        |structure: &InformationStructure| SiteId::all(3).any(|site| !structure.inform(site).contains(site));
    (0..3_usize.pow(9)).map(any).filter(move |structure| structure.satisfies_footnote() && forgets(structure))
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
    let report = explored(&structure, deadlock, &bounds());
    JudgedStructure { flaw: structure.check().err(), structure, report }
}

/// Explores exclusion alone in one structure: without the premise of the theorem the rules promise nothing else.
pub fn explore_exclusion(structure: &InformationStructure, deadlock: &str) -> Report {
    let properties: Properties = [Property::Exclusion].into_iter().collect();
    explored(structure, deadlock, &bounds().checking(properties))
}

fn explored(structure: &InformationStructure, deadlock: &str, bounds: &Bounds) -> Report {
    let mut values = Values::defaults(&Sanders::INFO);
    for (name, value) in
        [("structure", structure.to_string().as_str()), ("force", "yes"), ("deadlock", deadlock)]
    {
        values.set(name, value).expect("an option of the algorithm");
    }
    explore::<Sanders>(bounds, &values).expect("three sites, one permit")
}
