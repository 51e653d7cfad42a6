//! Where to look for a running cluster: addresses, names with several addresses, and services (`SRV` records). Names are looked up anew each
//! time, on threads where that may take long, and never for longer than a few seconds.

mod srv;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use meshlock_cluster::address::Address;

/// How long looking up a name may take.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(5);

/// Maximum number of addresses that are taken from one name or service.
const MAX_ADDRESSES: usize = 16;

/// Where to look for a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinPlace {
    /// One site.
    Address(Address),
    /// `dns:NAME:PORT`: a site at every address of the name.
    Dns { name: String, port: u16 },
    /// `dns+srv:NAME`: the sites that the `SRV` records of the name list.
    Srv { name: String },
}

/// Why a text does not say where to look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a place to join; write 'db-1.example:7400', 'dns:sites.example:7400' or 'dns+srv:_meshlock._tcp.example'"
)]
pub struct JoinPlaceError(String);

impl FromStr for JoinPlace {
    type Err = JoinPlaceError;

    fn from_str(text: &str) -> Result<Self, JoinPlaceError> {
        let wrong = || JoinPlaceError(text.chars().filter(|c| !c.is_control()).take(80).collect());
        if let Some(name) = text.strip_prefix("dns+srv:") {
            meshlock_wire::dns::srv_query(0, name).map_err(|_| wrong())?;
            return Ok(JoinPlace::Srv { name: name.to_owned() });
        }
        let (place, is_dns) = text.strip_prefix("dns:").map_or((text, false), |rest| (rest, true));
        let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        if host.is_empty() || (is_dns && host.contains(':')) {
            return Err(wrong());
        }
        if is_dns {
            return Ok(JoinPlace::Dns { name: host.to_owned(), port });
        }
        place.parse().map(JoinPlace::Address).map_err(|_| wrong())
    }
}

impl fmt::Display for JoinPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinPlace::Address(address) => address.fmt(f),
            JoinPlace::Dns { name, port } => write!(f, "dns:{name}:{port}"),
            JoinPlace::Srv { name } => write!(f, "dns+srv:{name}"),
        }
    }
}

impl JoinPlace {
    /// Returns the addresses of sites at this place, as of now; the error says why there are none.
    pub async fn look_up(&self) -> Result<Vec<Address>, String> {
        match self {
            JoinPlace::Address(address) => Ok(vec![address.clone()]),
            JoinPlace::Dns { name, port } => look_up_name(name, *port).await,
            JoinPlace::Srv { name } => {
                let mut found = Vec::new();
                let mut errors = Vec::new();
                for target in srv::look_up(name).await? {
                    match look_up_name(&target.host, target.port).await {
                        Ok(addresses) => found.extend(addresses),
                        Err(error) => errors.push(error),
                    }
                }
                found.truncate(MAX_ADDRESSES);
                if found.is_empty() { Err(errors.join("; ")) } else { Ok(found) }
            }
        }
    }
}

/// Looks up the addresses of a name, as the operating system does.
async fn look_up_name(name: &str, port: u16) -> Result<Vec<Address>, String> {
    let looked_up = timeout(LOOK_UP_WITHIN, lookup_host((name, port))).await;
    let looked_up = looked_up
        .map_err(|_| format!("looking up {name} takes longer than {} s", LOOK_UP_WITHIN.as_secs()))?;
    let found = looked_up.map_err(|error| format!("{name} cannot be looked up: {error}"))?;
    // The same order at each time, whatever the name server rotates.
    let found: BTreeSet<_> = found.collect();
    let addresses: Vec<Address> = found
        .into_iter()
        .take(MAX_ADDRESSES)
        .filter_map(|address| address.to_string().parse().ok())
        .collect();
    if addresses.is_empty() { Err(format!("{name} has no address")) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_kinds_of_places_are_read_and_written() {
        for text in
            ["db-1.example:7400", "[::1]:7400", "dns:sites.example:7400", "dns+srv:_meshlock._tcp.example"]
        {
            assert_eq!(text.parse::<JoinPlace>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "db-1",
            "db-1:",
            ":7400",
            "db-1:x",
            "dns:a",
            "dns:a:b:1",
            "dns:a:70000",
            "dns+srv:",
            "dns+srv:a b",
        ] {
            let error = text.parse::<JoinPlace>().unwrap_err().to_string();
            assert!(error.contains("is not a place to join; write "), "{error}");
        }
    }
}
