//! Request sets: one for each site, with the site in it, every two of which meet. For `maekawa` and `cao-singhal`.

use crate::quorum::QuorumSystem;
use crate::registry::info::{OptionInfo, Range};
use crate::registry::values::Values;
use crate::{Cluster, PlanError, SiteId, SiteSet};

/// The option `quorums`.
pub(in crate::algorithms) const OPTION: OptionInfo = OptionInfo {
    name: "quorums",
    about: "the request sets: the smaller of plane and grid; the lines of a projective plane, folded \
            where N is no q²+q+1; row and column of a grid; or given ones, site i's the i-th",
    range: Range::WordsOr {
        words: &["best", "plane", "grid"],
        notation: "sets of sites such as 0.1/1.2/0.2",
    },
    default: "best",
};

/// The request sets that the option asks for.
pub(in crate::algorithms) fn chosen(cluster: Cluster, values: &Values) -> Result<QuorumSystem, PlanError> {
    let plane = || QuorumSystem::folded_plane(cluster.sites);
    let grid = || QuorumSystem::grid(cluster.sites);
    let built = match values.get("quorums") {
        "plane" => plane(),
        "grid" => grid(),
        "best" => plane().and_then(|plane| Ok(smaller(plane, grid()?))),
        text => return given(cluster, text),
    };
    built.map_err(|error| refused(error.to_string()))
}

fn refused(why: String) -> PlanError {
    PlanError::Option { option: "quorums", why }
}

/// The family whose largest set is smaller, or that is smaller in all.
fn smaller(a: QuorumSystem, b: QuorumSystem) -> QuorumSystem {
    let size = |system: &QuorumSystem| {
        let sizes = || system.quorums().iter().map(SiteSet::len);
        (sizes().max(), sizes().sum::<usize>())
    };
    if size(&b) < size(&a) { b } else { a }
}

/// Sets that the user gives: one for each site (M2: with the site in it), every two of which meet (M1).
fn given(cluster: Cluster, text: &str) -> Result<QuorumSystem, PlanError> {
    let system = QuorumSystem::parse(cluster.sites, text).map_err(|error| refused(error.to_string()))?;
    let sets = system.quorums();
    if sets.len() != cluster.sites {
        let why = format!("{} sets for {} sites; each site needs one", sets.len(), cluster.sites);
        return Err(refused(why));
    }
    for (site, set) in SiteId::all(cluster.sites).zip(sets) {
        if !set.contains(site) {
            return Err(refused(format!("the set {set} of site {} does not contain it", site.index())));
        }
        let mut before = SiteId::all(site.index()).zip(sets);
        if let Some((other, disjoint)) = before.find(|(_, other)| !set.intersects(other)) {
            let (a, b) = (other.index(), site.index());
            return Err(refused(format!(
                "the sets {disjoint} of site {a} and {set} of site {b} do not meet"
            )));
        }
    }
    Ok(system)
}
