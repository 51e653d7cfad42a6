//! The quorum workbench: builds or parses a family of sets and analyses it.

use meshlock_protocol::SiteSet;
use meshlock_protocol::quorum::analysis::{Analysis, Method, QuorumRule, Sampling};
use meshlock_protocol::quorum::check::{Property, QuorumVerdict};
use meshlock_protocol::quorum::{BuildQuorumsError, ParseQuorumsError, QuorumSystem, votes};
use serde_json::{Value, json};

use crate::setup::Parts;

/// The largest number of sites on the page; `meshlock quorum` takes more.
const MAX_SITES: usize = 64;
/// The largest number of sets that are listed.
const MAX_LISTED: usize = 64;
/// The number of steps from 0 to 1 in which the availability is drawn.
const CURVE: u32 = 50;

/// Why there is no family. The message says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkbenchError {
    #[error(transparent)]
    Build(#[from] BuildQuorumsError),
    #[error(transparent)]
    Parse(#[from] ParseQuorumsError),
    /// A value that makes no sense.
    #[error("{0}")]
    Value(String),
}

/// A family, and what is known of it besides its sets.
struct QuorumFamily {
    title: String,
    system: QuorumSystem,
    rule: Option<QuorumRule>,
    /// The spec with which the lab simulates it.
    run: Option<String>,
}

/// Builds and analyses the family of an address.
pub(crate) fn judge(parts: &Parts) -> Result<Value, WorkbenchError> {
    let QuorumFamily { title, system, rule, run } = family(parts)?;
    if system.quorums().is_empty() || system.quorums().iter().any(SiteSet::is_empty) {
        return Err(WorkbenchError::Value("a family needs at least one set, and no empty one".to_owned()));
    }
    let failing: Vec<f64> = (0..=CURVE).map(|at| f64::from(at) / f64::from(CURVE)).collect();
    let sampling = Sampling { samples: 5_000, ..Sampling::default() };
    let figures = match &rule {
        Some(rule) => Analysis::of_rule(rule, &failing, sampling)?,
        None => Analysis::of(&system, &failing, sampling),
    };
    let sets: Vec<Vec<usize>> = system.quorums().iter().take(MAX_LISTED).map(indices).collect();
    let points: Vec<[f64; 3]> = figures
        .availability
        .points
        .iter()
        .map(|point| [point.failing, point.available, point.error])
        .collect();
    let Analysis { sizes, messages, load, resilience, availability } = &figures;
    Ok(json!({
        "title": title,
        "sites": system.sites(),
        "sets": sets,
        "set_count": system.quorums().len(),
        "checks": checks(&system),
        "sizes": { "least": sizes.least, "mean": sizes.mean, "most": sizes.most },
        "messages": { "least": messages.least, "mean": messages.mean, "most": messages.most },
        "load": { "best": load.best, "even": load.even, "of_sites": load.of_sites, "strategy": load.strategy },
        "resilience": { "at_least": resilience.at_least, "at_most": resilience.at_most },
        "availability": {
            "points": points,
            "method": match availability.method {
                Method::Subsets | Method::InclusionExclusion | Method::Rule => "exact".to_owned(),
                Method::Sampled(sampling) => format!("from {} samples", sampling.samples),
            },
        },
        "run": run,
    }))
}

fn indices(set: &SiteSet) -> Vec<usize> {
    set.iter().map(|site| site.index()).collect()
}

fn checks(system: &QuorumSystem) -> Vec<Value> {
    let asked = [Property::Intersection, Property::Minimality, Property::M2, Property::M3, Property::M4];
    let one_each = system.quorums().len() == system.sites();
    let applies =
        |property: &Property| one_each || matches!(property, Property::Intersection | Property::Minimality);
    asked
        .into_iter()
        .filter(applies)
        .map(|property| {
            let (holds, why) = match property.check(system) {
                QuorumVerdict::Holds => (Some(true), String::new()),
                QuorumVerdict::Fails(violation) => (Some(false), violation.to_string()),
                QuorumVerdict::Undecided => (None, "given up".to_owned()),
            };
            json!({ "name": format!("{property:?}"), "about": property.about(), "holds": holds, "why": why })
        })
        .collect()
}

fn family(parts: &Parts) -> Result<QuorumFamily, WorkbenchError> {
    let text = |name: &str, default: &str| parts.get(name).map_or(default, String::as_str).trim().to_owned();
    let build = text("build", "plane");
    let sites = || number("n", &text("n", "9"), MAX_SITES);
    let plain = |title, system, run| QuorumFamily { title, system, rule: None, run };
    Ok(match build.as_str() {
        "plane" => {
            let order = number("order", &text("order", "2"), 7)?;
            let system = QuorumSystem::plane(order)?;
            let run = format!("algo=maekawa:quorums=plane&n={}", system.sites());
            plain(format!("projective plane of order {order}"), system, Some(run))
        }
        "folded" => {
            let sites = sites()?;
            plain(
                format!("plane folded to {sites} sites"),
                QuorumSystem::folded_plane(sites)?,
                Some(format!("algo=maekawa&n={sites}")),
            )
        }
        "grid" => {
            let sites = sites()?;
            let (system, rule) = (QuorumSystem::grid(sites)?, Some(QuorumRule::grid(sites)?));
            QuorumFamily {
                title: format!("grid of {sites} sites"),
                system,
                rule,
                run: Some(format!("algo=maekawa:quorums=grid&n={sites}")),
            }
        }
        "tree" => {
            let sites = number("n", &text("n", "7"), 31)?;
            plain(
                format!("tree of {sites} sites"),
                QuorumSystem::tree(sites, &SiteSet::new())?,
                Some(format!("algo=tree-quorum&n={sites}")),
            )
        }
        "majority" => {
            let sites = sites()?;
            plain(
                format!("majorities of {sites} sites"),
                QuorumSystem::majority(sites)?,
                Some(format!("algo=majority&n={sites}")),
            )
        }
        "votes" => weighted(&text("votes", "3,1,1,1,1"), &text("quota", ""))?,
        "sets" => {
            let system = QuorumSystem::read(&text("sets", "0.1/1.2/0.2"))?;
            if system.sites() > MAX_SITES {
                return Err(too_many("sets", MAX_SITES));
            }
            let run = own_sets(&system);
            plain("own sets".to_owned(), system, run)
        }
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(WorkbenchError::Value(format!(
                "build cannot be '{shown}'; it is plane, folded, grid, tree, majority, votes or sets"
            )));
        }
    })
}

/// Given sets can be simulated if each site has one.
fn own_sets(system: &QuorumSystem) -> Option<String> {
    let one = |set: &SiteSet| set.iter().map(|site| site.index().to_string()).collect::<Vec<_>>().join(".");
    let sets = system.quorums().iter().map(one).collect::<Vec<_>>().join("/");
    (system.quorums().len() == system.sites())
        .then(|| format!("algo=maekawa:quorums={sets}&n={}", system.sites()))
}

fn weighted(given: &str, quota: &str) -> Result<QuorumFamily, WorkbenchError> {
    let words: Vec<&str> = given.split([',', '.', ' ']).filter(|word| !word.is_empty()).collect();
    let weights: Result<Vec<u32>, _> = words.iter().map(|word| word.parse()).collect();
    let weights = weights
        .map_err(|_| WorkbenchError::Value("votes are whole numbers with ',' between them".to_owned()))?;
    if weights.len() > 24 {
        return Err(too_many("votes", 24));
    }
    let quota = match quota {
        "" => votes::majority_of(&weights),
        given => {
            given.parse().map_err(|_| WorkbenchError::Value("the quota is a whole number".to_owned()))?
        }
    };
    let system = QuorumSystem::votes(&weights, quota)?;
    let rule = Some(QuorumRule::votes(weights.clone(), quota)?);
    let listed = weights.iter().map(u32::to_string).collect::<Vec<_>>();
    let usual = quota == votes::majority_of(&weights);
    let run = usual.then(|| format!("algo=majority:votes={}&n={}", listed.join("."), weights.len()));
    Ok(QuorumFamily {
        title: format!("votes {} with a quota of {quota}", listed.join(", ")),
        system,
        rule,
        run,
    })
}

fn number(name: &str, given: &str, most: usize) -> Result<usize, WorkbenchError> {
    let number = given.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        WorkbenchError::Value(format!(
            "{name} is a whole number from 1 to {most}; `meshlock quorum` takes more"
        ))
    })
}

fn too_many(name: &str, most: usize) -> WorkbenchError {
    WorkbenchError::Value(format!("{name}: at most {most} sites here; `meshlock quorum` takes more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Result<Value, String> {
        let pairs = text.split('&').filter_map(|part| part.split_once('='));
        let parts = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        judge(&parts).map_err(|error| error.to_string())
    }

    #[test]
    fn the_plane_of_seven_sites_has_all_that_maekawa_asks_for() {
        let plane = judged("build=plane&order=2").unwrap();
        assert_eq!((plane["sites"].as_u64(), plane["sizes"]["most"].as_u64()), (Some(7), Some(3)));
        assert!(plane["checks"].as_array().unwrap().iter().all(|check| check["holds"] == true));
        assert!((plane["load"]["best"].as_f64().unwrap() - 3.0 / 7.0).abs() < 1e-9);
        assert_eq!(plane["resilience"]["at_least"], 2);
    }

    #[test]
    fn own_sets_that_do_not_meet_are_told_which() {
        let sets = judged("build=sets&sets=0.1/2.3").unwrap();
        assert_eq!(sets["checks"][0]["holds"], false);
        assert!(sets["checks"][0]["why"].as_str().unwrap().contains("{0,1}"), "{}", sets["checks"][0]["why"]);
    }

    #[test]
    fn every_construction_is_judged_and_nonsense_is_named() {
        for build in ["plane", "folded", "grid", "tree", "majority", "votes", "sets"] {
            let family = judged(&format!("build={build}")).unwrap();
            assert_eq!(family["availability"]["points"].as_array().unwrap().len(), 51, "{build}");
        }
        for nonsense in [
            "build=x",
            "build=grid&n=0",
            "build=plane&order=6",
            "build=votes&votes=a",
            "build=sets&sets=//",
            "build=grid&n=99999",
        ] {
            assert!(!judged(nonsense).unwrap_err().is_empty(), "{nonsense}");
        }
    }
}
