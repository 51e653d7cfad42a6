//! Learning about a cluster from the address of one of its sites: the cluster's name, its founding sites, and their addresses.

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::greet::{GREET_WITHIN, GreetError, ask_about};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_tls::Security;
use meshlock_wire::sites::Introduction;

/// Why nothing could be learnt about a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no site of a cluster answers at {address}: {why}")]
pub struct IntroduceError {
    pub address: Address,
    pub why: String,
}

/// Asks the site at `address`, as the site `me`, about its cluster.
pub async fn learn_of_cluster(
    address: &Address,
    me: &SiteName,
    security: &Security,
) -> Result<Introduction, IntroduceError> {
    let ask = async {
        let stream = TcpStream::connect(address.as_str()).await?;
        ask_about(stream, security.dialling_any()?, me).await
    };
    let asked = timeout(GREET_WITHIN, ask).await.unwrap_or(Err(GreetError::Silent));
    asked.map_err(|error| IntroduceError { address: address.clone(), why: error.to_string() })
}
