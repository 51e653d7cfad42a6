//! Who makes a call: every request carries it, put there by the server's guard.

use meshlock_host::front::Admitted;
use tonic::{Request, Status};

/// Who makes this call. One that did not come through the guard is refused.
pub(crate) fn caller_of<T>(request: &Request<T>) -> Result<Admitted, Status> {
    let caller = request.extensions().get::<Admitted>().cloned();
    caller.ok_or_else(|| Status::unauthenticated("meshlock: nobody knows who asks"))
}

/// A call of this caller.
pub(crate) fn request_of<T>(caller: &Admitted, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(caller.clone());
    request
}
