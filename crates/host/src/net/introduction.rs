//! How a site that knows nothing but an address learns of which cluster it is: what it is called, with which sites it began, and
//! where they are reached.

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::greet::{GREET_WITHIN, GreetError, ask_about};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_tls::Security;
use meshlock_wire::sites::Introduction;

/// Why nothing was learnt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no site of a cluster answers at {address}: {why}")]
pub struct IntroduceError {
    /// Where.
    pub address: Address,
    /// Why.
    pub why: String,
}

/// Asks the site at `address`, as the site `me`, of which cluster it is.
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
