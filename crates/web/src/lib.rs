//! Tells which HTTP requests a web page of another site has made.
//!
//! A port that only this machine can reach is still reached by every web page that a browser of this machine shows: by a form, by a
//! request that does not read its answer, or by a name that the page's owner lets resolve to 127.0.0.1 (DNS rebinding). Browsers say
//! where a request comes from, and a page cannot change that:
//!
//! - `Host` (in HTTP/2 `:authority`) is the name in the page's address. A port without certificates answers to loopback names only.
//! - `Origin` is the page that makes the request. Only pages that the server itself has sent may make any.
//! - `Sec-Fetch-Site` says the same where there is no `Origin`, as for images and links.
//!
//! Programs that are no browsers send neither `Origin` nor `Sec-Fetch-Site`, and name the address that they connect to: nothing changes
//! for them.
//!
//! This crate isolates what the API and the lab check alike, and forbids I/O and every other crate of Meshlock.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName};
use http::uri::{Authority, Uri};

/// The header by which a browser says how the page that makes a request is related to the server.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Maximum number of characters of a refused header that an error repeats.
const MAX_SHOWN: usize = 80;

/// The addresses under which a server is known to browsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedAs {
    /// `http` on this machine: only names that mean this machine and that nobody can redirect.
    Loopback,
    /// `https`: any name, because the browser checks the server's certificate.
    Protected,
}

/// A request that a web page of another site has made, or may have made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrossSite {
    /// The request is for another host.
    #[error(
        "this port serves programs of this machine only, and the request is for the host '{0}'; connect to localhost, 127.0.0.1 or [::1]"
    )]
    Host(String),
    /// A page of another site made the request.
    #[error("a web page of '{0}' may not use this port; use a program that is no browser")]
    Origin(String),
    /// A page of another site made the request, without saying which.
    #[error("a web page of another site may not use this port; use a program that is no browser")]
    Page,
}

impl ServedAs {
    /// Checks that no page of another site has made the request.
    pub fn check(self, uri: &Uri, headers: &HeaderMap) -> Result<(), CrossSite> {
        self.check_host(uri, headers)?;
        self.check_page(uri, headers)
    }

    /// Checks only the name by which the server is addressed, for what a page of another site may link to.
    pub fn check_host(self, uri: &Uri, headers: &HeaderMap) -> Result<(), CrossSite> {
        if self == ServedAs::Protected {
            return Ok(());
        }
        let named = uri.authority().map(Authority::as_str).into_iter();
        let mut named = named.chain(headers.get_all(header::HOST).iter().map(text));
        named.find(|host| !is_loopback(host)).map_or(Ok(()), |host| Err(CrossSite::Host(shown(host))))
    }

    /// Checks who has made the request.
    fn check_page(self, uri: &Uri, headers: &HeaderMap) -> Result<(), CrossSite> {
        let host = uri.authority().map(Authority::as_str).or_else(|| headers.get(header::HOST).map(text));
        let is_own = |origin: &str| host.is_some() && origin.strip_prefix(self.scheme()) == host;
        if let Some(origin) = headers.get_all(header::ORIGIN).iter().map(text).find(|origin| !is_own(origin))
        {
            return Err(CrossSite::Origin(shown(origin)));
        }
        // "none" is the user, who typed the address.
        let is_page = |site: &str| !["same-origin", "none"].contains(&site);
        if headers.get_all(FETCH_SITE).iter().map(text).any(is_page) {
            return Err(CrossSite::Page);
        }
        Ok(())
    }

    fn scheme(self) -> &'static str {
        match self {
            ServedAs::Loopback => "http://",
            ServedAs::Protected => "https://",
        }
    }
}

/// Returns a header's value. What is no text is none that would be accepted.
fn text(value: &http::HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// Returns what an error repeats of a header: no control characters, and not too many of the others.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

/// Returns whether `host`, with or without a port, means this machine and cannot be redirected.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    literal.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks with these headers, given as lines.
    fn ask(served: ServedAs, uri: &str, lines: &[&str]) -> Result<(), CrossSite> {
        let line = |line: &&str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.parse::<HeaderName>().ok()?, value.parse().ok()?))
        };
        let headers: HeaderMap = lines.iter().filter_map(line).collect();
        assert_eq!(headers.len(), lines.len());
        served.check(&Uri::try_from(uri).unwrap_or_default(), &headers)
    }

    #[test]
    fn programs_of_this_machine_are_served_by_any_loopback_name() {
        let names =
            ["127.0.0.1:2379", "localhost:2379", "LocalHost", "[::1]:2379", "127.8.9.1:1", "127.0.0.1"];
        for host in names {
            assert_eq!(ask(ServedAs::Loopback, "/v1/status", &[&format!("host: {host}")]), Ok(()), "{host}");
            // As HTTP/2 says it.
            assert_eq!(ask(ServedAs::Loopback, &format!("http://{host}/v1/status"), &[]), Ok(()), "{host}");
        }
        assert_eq!(ask(ServedAs::Loopback, "/healthz", &[]), Ok(()), "no browser leaves the host out");
    }

    #[test]
    fn a_name_that_somebody_lets_resolve_to_this_machine_is_refused() {
        let names = [
            "evil.example:2379",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "10.0.0.1",
            "0.0.0.0",
            "x:",
        ];
        for host in names {
            let refused = Err(CrossSite::Host(host.to_owned()));
            assert_eq!(ask(ServedAs::Loopback, "/", &[&format!("host: {host}")]), refused);
            assert_eq!(ask(ServedAs::Protected, "/", &[&format!("host: {host}")]), Ok(()));
        }
        let both = ask(ServedAs::Loopback, "http://127.0.0.1/", &["host: evil.example"]);
        assert_eq!(both, Err(CrossSite::Host("evil.example".to_owned())));
    }

    #[test]
    fn only_pages_of_the_server_itself_may_ask() {
        let (loopback, host) = (ServedAs::Loopback, "host: 127.0.0.1:7070");
        assert_eq!(ask(loopback, "/", &[host, "origin: http://127.0.0.1:7070"]), Ok(()));
        for origin in
            ["http://evil.example", "http://127.0.0.1:7071", "null", "https://127.0.0.1:7070", "http://"]
        {
            let refused = ask(loopback, "/", &[host, &format!("origin: {origin}")]);
            assert_eq!(refused, Err(CrossSite::Origin(origin.to_owned())));
        }
        let own = ["host: db-1:2379", "origin: https://db-1:2379"];
        assert_eq!(ask(ServedAs::Protected, "/", &own), Ok(()));
        assert!(ask(ServedAs::Protected, "/", &["host: db-1:2379", "origin: http://db-1:2379"]).is_err());
        assert!(ask(ServedAs::Loopback, "/", &["origin: http://"]).is_err(), "no host is no page's");
    }

    #[test]
    fn a_page_of_another_site_is_known_without_its_origin() {
        for (site, is_served) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            for served in [ServedAs::Loopback, ServedAs::Protected] {
                let asked = ask(served, "/", &["host: localhost:1", &format!("sec-fetch-site: {site}")]);
                assert_eq!(asked.is_ok(), is_served, "{site}");
            }
        }
    }
}
