//! Revocation: certificates, sites and clients that are refused although the authority's signature is valid.

use std::collections::BTreeSet;

use super::name::{Bearer, ClientName};
use super::x509::Serial;

/// Maximum number of entries of the list.
const MAX_ENTRIES: usize = 10_000;

/// Who is refused: names of sites and clients, and serial numbers of certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    bearers: BTreeSet<Bearer>,
    serials: BTreeSet<Serial>,
}

/// Why an entry of the list is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevokedError {
    #[error("'{given}' names nobody: {why}; say client/NAME, site/NAME or serial/HEX")]
    Entry { given: String, why: String },
    #[error("{0} entries; at most {MAX_ENTRIES} are allowed: replace the authority instead")]
    TooMany(usize),
}

impl Revoked {
    /// Reads a list whose entries are `client/NAME`, `site/NAME` or `serial/HEX`. An error comes with the index of the entry it is about.
    pub fn new<T: AsRef<str>>(entries: &[T]) -> Result<Self, (usize, RevokedError)> {
        if entries.len() > MAX_ENTRIES {
            return Err((MAX_ENTRIES, RevokedError::TooMany(entries.len())));
        }
        let mut revoked = Revoked::default();
        for (at, entry) in entries.iter().enumerate() {
            let entry = entry.as_ref();
            revoked.add(entry).map_err(|why| {
                let given = entry.chars().take(80).collect();
                (at, RevokedError::Entry { given, why })
            })?;
        }
        Ok(revoked)
    }

    fn add(&mut self, entry: &str) -> Result<(), String> {
        match entry.split_once('/') {
            Some(("client", name)) => {
                self.bearers.insert(Bearer::Client(name.parse().map_err(|error| format!("{error}"))?));
            }
            Some(("site", name)) => {
                self.bearers.insert(Bearer::Site(name.parse().map_err(|error| format!("{error}"))?));
            }
            Some(("serial", serial)) => {
                self.serials.insert(serial.parse().map_err(|error| format!("{error}"))?);
            }
            Some(_) | None => return Err("it begins with neither of these".to_owned()),
        }
        Ok(())
    }

    /// Returns a list with the entries of both.
    #[must_use]
    pub fn joined(mut self, other: &Revoked) -> Self {
        self.bearers.extend(other.bearers.iter().cloned());
        self.serials.extend(other.serials.iter().cloned());
        self
    }

    /// Returns the entry that refuses this certificate, if there is one.
    pub fn entry_for(&self, bearer: &Bearer, serial: &Serial) -> Option<String> {
        if self.bearers.contains(bearer) {
            return Some(format!("{}/{}", bearer.kind(), bearer.name()));
        }
        self.serials.contains(serial).then(|| format!("serial/{serial}"))
    }

    /// Returns whether a client of this name is refused, whatever it shows: a certificate or a token.
    pub fn has_client(&self, name: &ClientName) -> bool {
        !self.bearers.is_empty() && self.bearers.contains(&Bearer::Client(name.clone()))
    }

    /// Returns whether the certificate with this number is refused, whoever it is of.
    pub fn has_serial(&self, serial: &Serial) -> bool {
        self.serials.contains(serial)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.bearers.len() + self.serials.len()
    }

    /// Returns whether nobody is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_clients_sites_and_certificates_and_others_are_refused_with_their_number() {
        let revoked = Revoked::new(&["client/ci", "site/db-9", "serial/0A:1b"]).unwrap();
        let (client, site) = (Bearer::Client("ci".parse().unwrap()), Bearer::Site("db-9".parse().unwrap()));
        let (other, listed) = ("01".parse().unwrap(), "0a1b".parse().unwrap());
        assert_eq!(revoked.entry_for(&client, &other).as_deref(), Some("client/ci"));
        assert_eq!(revoked.entry_for(&site, &other).as_deref(), Some("site/db-9"));
        let namesake = Bearer::Site("ci".parse().unwrap());
        assert_eq!(revoked.entry_for(&namesake, &other), None, "a site is not the client of its name");
        assert_eq!(revoked.entry_for(&namesake, &listed).as_deref(), Some("serial/0a1b"));
        assert!(revoked.has_client(&"ci".parse().unwrap()) && !revoked.has_client(&"db-9".parse().unwrap()));
        for (wrong, says) in [
            ("ci", "'ci' names nobody: it begins with neither of these; say client/NAME"),
            ("client/", "'client/' names nobody: "),
            ("client/a b", "'client/a b' names nobody: "),
            ("serial/xyz", "'serial/xyz' names nobody: a serial number is"),
        ] {
            let (at, error) = Revoked::new(&["client/a", wrong]).unwrap_err();
            assert!(at == 1 && error.to_string().starts_with(says), "{wrong}: {error}");
        }
        assert!(Revoked::new(&vec!["client/a"; MAX_ENTRIES + 1]).is_err());
    }
}
