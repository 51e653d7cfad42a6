//! Where the other sites are: what the configuration says, what the installed view says, and what sites that were reached say.
//!
//! None of these is always right. A file may be older than the last move of a site; the view of a site that was away is old, too; and an
//! operator may have written an address on purpose that the site itself does not know (a forwarded port). So all of them are tried, in an
//! order that makes the usual case fast, and whoever answers proves who it is: by its certificate, or without TLS by its greeting.

use std::collections::BTreeMap;

use meshlock_cluster::names::SiteName;

/// Maximum number of sites of which something is remembered.
const MAX_SITES: usize = 1024;

/// Maximum number of addresses of one site that other sites have told.
const MAX_TOLD: usize = 4;

/// Where the other sites are.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<SiteName, KnownPlace>);

/// What is known of where a site is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KnownPlace {
    /// The address in the configuration.
    configured: Option<String>,
    /// The address in the installed view: what the site said when it asked to join.
    in_view: Option<String>,
    /// What other sites have told, the last one first.
    told: Vec<String>,
    /// Where it was last reached.
    reached: Option<String>,
    /// What was tried and failed since then: addresses and errors.
    failed: Vec<(String, String)>,
}

impl KnownPlace {
    fn candidates(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let known = [&self.reached, &self.configured, &self.in_view].into_iter().flatten();
        for address in known.chain(&self.told) {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
        all
    }
}

impl Places {
    /// Returns what a configuration says.
    pub(super) fn new(configured: BTreeMap<SiteName, String>) -> Self {
        let place = |address| KnownPlace { configured: Some(address), ..KnownPlace::default() };
        Places(configured.into_iter().map(|(site, address)| (site, place(address))).collect())
    }

    fn of(&mut self, site: &SiteName) -> Option<&mut KnownPlace> {
        if self.0.len() >= MAX_SITES && !self.0.contains_key(site) {
            return None;
        }
        Some(self.0.entry(site.clone()).or_default())
    }

    /// Returns the addresses in the configuration.
    pub(super) fn configured(&self) -> Vec<String> {
        self.0.values().filter_map(|place| place.configured.clone()).collect()
    }

    /// Remembers the address in a view. If it is another one than before, the site has moved.
    pub(super) fn on_view(&mut self, site: &SiteName, address: String) {
        let Some(place) = self.of(site) else { return };
        if place.in_view.as_ref() != Some(&address) {
            place.reached.take_if(|reached| *reached != address);
            place.in_view = Some(address);
        }
    }

    /// Remembers what another site said. Returns whether it is new.
    pub(super) fn on_told(&mut self, site: &SiteName, address: String) -> bool {
        let Some(place) = self.of(site) else { return false };
        if place.candidates().contains(&address) {
            return false;
        }
        place.told.insert(0, address);
        place.told.truncate(MAX_TOLD);
        true
    }

    /// Remembers where a site was reached.
    pub(super) fn on_reached(&mut self, site: &SiteName, address: String) {
        if let Some(place) = self.of(site) {
            (place.reached, place.failed) = (Some(address), Vec::new());
        }
    }

    /// Remembers that a site answers on a connection that it has made itself.
    pub(super) fn on_connected(&mut self, site: &SiteName) {
        if let Some(place) = self.0.get_mut(site) {
            place.failed.clear();
        }
    }

    /// Remembers what was tried in vain.
    pub(super) fn on_failed(&mut self, site: &SiteName, failed: Vec<(String, String)>) {
        if let Some(place) = self.of(site) {
            place.failed = failed;
        }
    }

    /// Returns the addresses to try, the most likely first.
    pub(super) fn candidates(&self, site: &SiteName) -> Vec<String> {
        self.0.get(site).map(KnownPlace::candidates).unwrap_or_default()
    }

    /// Returns where a site most likely is, to be told to others: where it was reached, or what it said itself.
    pub(super) fn best(&self, site: &SiteName) -> Option<String> {
        let place = self.0.get(site)?;
        let known = [&place.reached, &place.in_view, &place.configured];
        known.into_iter().flatten().chain(&place.told).next().cloned()
    }

    /// Returns all sites of which an address is known.
    pub(super) fn sites(&self) -> Vec<SiteName> {
        self.0
            .iter()
            .filter(|(_, place)| !place.candidates().is_empty())
            .map(|(site, _)| site.clone())
            .collect()
    }

    /// Returns what was tried in vain for a site that was not reached since.
    pub(super) fn failures(&self, site: &SiteName) -> &[(String, String)] {
        self.0.get(site).map_or(&[], |place| &place.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        name.parse().unwrap()
    }

    #[test]
    fn every_address_is_tried_and_the_one_where_the_site_was_reached_comes_first() {
        let mut places = Places::new([(site("b"), "file:1".to_owned())].into());
        assert_eq!(places.candidates(&site("b")), ["file:1"]);
        places.on_view(&site("b"), "view:1".to_owned());
        assert!(places.on_told(&site("b"), "told:1".to_owned()));
        assert!(!places.on_told(&site("b"), "view:1".to_owned()), "it is known");
        assert_eq!(places.candidates(&site("b")), ["file:1", "view:1", "told:1"]);
        places.on_failed(&site("b"), vec![("file:1".to_owned(), "refused".to_owned())]);
        assert_eq!(places.failures(&site("b")).len(), 1);
        places.on_reached(&site("b"), "told:1".to_owned());
        assert_eq!(places.candidates(&site("b")), ["told:1", "file:1", "view:1"]);
        assert!(places.failures(&site("b")).is_empty());
        // It has moved.
        places.on_view(&site("b"), "view:2".to_owned());
        assert_eq!(places.candidates(&site("b")), ["file:1", "view:2", "told:1"]);
        assert_eq!(places.best(&site("b")).as_deref(), Some("view:2"));
    }

    #[test]
    fn what_others_tell_is_bounded() {
        let mut places = Places::default();
        for number in 0..100 {
            places.on_told(&site("b"), format!("told:{number}"));
        }
        assert_eq!(places.candidates(&site("b")), ["told:99", "told:98", "told:97", "told:96"]);
        for number in 0..2 * MAX_SITES {
            places.on_told(&site(&format!("s{number}")), "told:1".to_owned());
        }
        assert_eq!(places.sites().len(), MAX_SITES);
        assert_eq!(places.candidates(&site("unknown")), Vec::<String>::new());
    }
}
