//! Who may connect to a site, and do what there.

use meshlock_cluster::access::ShownToken;
use meshlock_tls::Security;

use super::NodeBuilder;
use crate::config::{AccessRule, AccessToken, Admission};
use crate::tls::Tls;

impl NodeBuilder {
    /// Protects connections between sites, and those of clients on other machines, by TLS with certificates.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = meshlock::Node::builder().tls(meshlock::Tls::from_dir("site-db-1")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tls(mut self, tls: Tls) -> Self {
        self.security = Some(Security::Tls(tls.identity().clone()));
        self
    }

    /// Trusts the network: connections are not protected, and anyone who reaches the port can pass for any site.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().plaintext();
    /// ```
    pub fn plaintext(mut self) -> Self {
        self.security = Some(Security::Plain);
        self
    }

    /// Adds an access rule for [`clients`](NodeBuilder::clients) and the API.
    ///
    /// ```
    /// use meshlock::config::{AccessRule, Verb};
    ///
    /// let builder = meshlock::Node::builder().access(AccessRule::new("ci-*", "deploy/*", [Verb::Acquire]));
    /// ```
    pub fn access(mut self, rule: AccessRule) -> Self {
        self.access.push(rule);
        self
    }

    /// Adds a token that a client of the API may show.
    ///
    /// ```
    /// use meshlock::config::AccessToken;
    ///
    /// let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // of `meshlock token new ci-1`
    /// let builder = meshlock::Node::builder().token(AccessToken::new("ci-1", hash));
    /// ```
    pub fn token(mut self, token: AccessToken) -> Self {
        self.tokens.push(token);
        self
    }

    /// Sets the one-time token with which this site joins its cluster for the first time, as `meshlock site add NAME --token` prints it.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().site("db-9").join(["db-1.example:7400"]).join_token("meshlock_0a1b2c");
    /// ```
    pub fn join_token(mut self, token: impl Into<String>) -> Self {
        self.join_token = Some(ShownToken(token.into()));
        self
    }

    /// Sets which sites may join as long as the cluster has no access document; the same at all sites with which it is founded. With
    /// [`Admission::Closed`] only those may, and sites that an operator adds; without this setting the first `meshlock site add`
    /// closes the cluster. It has no effect once there is a document.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().admission(meshlock::config::Admission::Closed);
    /// ```
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    /// Refuses everyone on this list, whatever certificate or token they show: `client/NAME`, `site/NAME`, or `serial/HEX` for one
    /// certificate. A site must also be removed from the cluster (`meshlock site remove`).
    ///
    /// ```
    /// let builder = meshlock::Node::builder().revoked(["client/laptop-7", "serial/0a1b2c"]);
    /// ```
    pub fn revoked<T: Into<String>>(mut self, entries: impl IntoIterator<Item = T>) -> Self {
        self.revoked = entries.into_iter().map(Into::into).collect();
        self
    }
}
