//! The settings by which pods of a StatefulSet share one file: `{site}` and `{ordinal}` in `advertise`, and `bootstrap_expect`.
//!
//! A cluster is its name and the list of its first sites, so every site must derive the same list, at every start, and without asking
//! anybody: two pods that each counted who is there could found two clusters. In a StatefulSet the names are known beforehand, `NAME-0`
//! to `NAME-(N-1)`, so the list follows from one's own name and N alone. What keeps a pod that starts with an empty disk from founding a
//! second cluster is the same as without it: the first start needs nearly all of these sites, and they remember each other's disks.

use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_host::JoinPlace;

use super::file::ListedSite;

/// Maximum number of sites that can found a cluster in this way.
const MAX_EXPECTED: u32 = 100;

/// Splits the name of a pod into the name of its set, with the dash, and its number.
fn ordinal(site: &SiteName) -> Option<(&str, u32)> {
    let dash = site.as_str().rfind('-')?;
    let (stem, digits) = site.as_str().split_at(dash + 1);
    let number: u32 = digits.parse().ok()?;
    // `m-01` and `m-+1` are other names than `m-1`.
    (number.to_string() == digits).then_some((stem, number))
}

/// Returns the first `count` sites of the set that this one belongs to.
pub(super) fn expected(
    count: u32,
    site: Option<&SiteName>,
    advertise: Option<&Address>,
) -> Result<Vec<ListedSite>, String> {
    if !(1..=MAX_EXPECTED).contains(&count) {
        return Err(format!("{count} sites cannot found a cluster; give 1 to {MAX_EXPECTED}, best 3 or 5"));
    }
    let site = site.ok_or("say what this site is called: set `site`, or give --site")?;
    let (stem, _) = ordinal(site).ok_or_else(|| {
        format!("the name '{site}' does not end with a dash and a number, as the pods of a StatefulSet do: db-0, db-1")
    })?;
    let advertise = advertise.filter(|address| has_placeholder(address)).ok_or(
        "say where each of the sites is: `advertise` with {site} or {ordinal} in it, such as \"{site}.meshlock:7400\"",
    )?;
    let listed = |number: u32| {
        let name: SiteName = format!("{stem}{number}").parse().map_err(|error| format!("{error}"))?;
        let address = filled(advertise, Some(&name))?;
        Ok(ListedSite { name, address })
    };
    (0..count).map(listed).collect()
}

fn has_placeholder(address: &Address) -> bool {
    ["{site}", "{ordinal}"].iter().any(|placeholder| address.as_str().contains(placeholder))
}

/// Replaces `{site}` and `{ordinal}` in an address by the site's name and the number at its end.
pub(super) fn filled(address: &Address, site: Option<&SiteName>) -> Result<Address, String> {
    if !has_placeholder(address) {
        return Ok(address.clone());
    }
    let site = site.ok_or("say what this site is called: set `site`, or give --site")?;
    let mut text = address.as_str().replace("{site}", site.as_str());
    if text.contains("{ordinal}") {
        let (_, number) = ordinal(site)
            .ok_or_else(|| format!("the name '{site}' does not end with a dash and a number"))?;
        text = text.replace("{ordinal}", &number.to_string());
    }
    text.parse().map_err(|error| format!("{error}"))
}

/// Checks the places to join, so that a mistake is named before any of them is looked up.
pub(super) fn check_places(places: &[String]) -> Result<(), String> {
    for place in places {
        place.parse::<JoinPlace>().map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: u32, site: &str, advertise: &str) -> Result<Vec<String>, String> {
        let listed = expected(count, Some(&site.parse().unwrap()), Some(&advertise.parse().unwrap()))?;
        Ok(listed.iter().map(|site| format!("{} {}", site.name, site.address)).collect())
    }

    #[test]
    fn every_pod_derives_the_same_list() {
        let first = list(3, "m-0", "{site}.mesh:7400").unwrap();
        assert_eq!(first, ["m-0 m-0.mesh:7400", "m-1 m-1.mesh:7400", "m-2 m-2.mesh:7400"]);
        // Also those that are added later, which do not found it.
        for pod in ["m-1", "m-2", "m-7", "m-10"] {
            assert_eq!(list(3, pod, "{site}.mesh:7400").unwrap(), first);
        }
        assert_eq!(
            list(2, "a-b-5", "10.0.0.{ordinal}:7400").unwrap(),
            ["a-b-0 10.0.0.0:7400", "a-b-1 10.0.0.1:7400"]
        );
    }

    #[test]
    fn what_cannot_be_derived_is_named() {
        for (count, site, advertise, why) in [
            (0, "m-0", "{site}:1", "0 sites cannot found a cluster"),
            (101, "m-0", "{site}:1", "101 sites cannot found"),
            (3, "m", "{site}:1", "does not end with a dash and a number"),
            (3, "m-01", "{site}:1", "does not end with a dash and a number"),
            (3, "m-", "{site}:1", "does not end with a dash and a number"),
            (3, "m-0", "m-0.mesh:1", "`advertise` with {site} or {ordinal}"),
        ] {
            let error = list(count, site, advertise).unwrap_err();
            assert!(error.contains(why), "{site}: {error}");
        }
        assert!(expected(3, None, None).is_err());
    }

    #[test]
    fn placeholders_of_an_address_are_filled_in() {
        let fill = |address: &str, site: &str| {
            filled(&address.parse().unwrap(), Some(&site.parse().unwrap())).map(|address| address.to_string())
        };
        assert_eq!(fill("{site}.mesh:7400", "db-3").unwrap(), "db-3.mesh:7400");
        assert_eq!(fill("h{ordinal}:7400", "db-3").unwrap(), "h3:7400");
        assert_eq!(fill("plain:7400", "db").unwrap(), "plain:7400");
        assert!(fill("h{ordinal}:7400", "db").is_err());
    }
}
