//! Identifies who makes a call. The server's guard attaches the caller to every request.

use std::net::SocketAddr;

use meshlock_host::front::Admitted;
use tonic::{Request, Status};

/// Returns the caller of a request. A request that did not pass through the guard is refused.
pub(crate) fn caller_of<T>(request: &Request<T>) -> Result<Admitted, Status> {
    let caller = request.extensions().get::<Admitted>().cloned();
    caller.ok_or_else(|| Status::unauthenticated("meshlock: the request carries no caller"))
}

/// Builds a request on behalf of `caller`.
pub(crate) fn request_of<T>(caller: &Admitted, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(caller.clone());
    request
}

/// The address of this site that a client has reached. The server attaches it to every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServedAt {
    pub(crate) address: SocketAddr,
    pub(crate) is_tls: bool,
}

impl ServedAt {
    /// Returns it as clients are given addresses.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }
}
