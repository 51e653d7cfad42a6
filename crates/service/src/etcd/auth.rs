//! Authentication of etcd's clients: they exchange a user and a password for a token. Here the user is the name of a
//! token and the password is the token itself, so that `etcdctl --user ci-1:TOKEN` and the like work, and nothing has
//! to be remembered.

use tonic::{Request, Response, Status, async_trait};

use super::Etcd;
use crate::caller::caller_of;
use crate::proto::etcdserverpb::auth_server::Auth;
use crate::proto::etcdserverpb::{AuthenticateRequest, AuthenticateResponse};
use crate::server::usable_token;

/// etcd's error message.
const FAILED: &str = "etcdserver: authentication failed, invalid user ID or password";

#[async_trait]
impl Auth for Etcd {
    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        let caller = caller_of(&request)?;
        let AuthenticateRequest { name, password } = request.into_inner();
        let front = self.sessions.front();
        if usable_token(front, &password).ok().is_none_or(|known| known.name.as_str() != name) {
            front.note_unknown(&caller);
            return Err(Status::invalid_argument(FAILED));
        }
        Ok(Response::new(AuthenticateResponse { header: self.plain_header(), token: password }))
    }
}
