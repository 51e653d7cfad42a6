//! Identifies who makes a call. The server's guard attaches the caller to every request.

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
