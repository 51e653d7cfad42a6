//! A gRPC client of etcd's lock service, for etcd itself and for whatever else serves the same API.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tonic::transport::{Channel, Endpoint};

use super::proto::etcdserverpb::LeaseGrantRequest;
use super::proto::etcdserverpb::lease_client::LeaseClient;
use super::proto::v3lockpb::lock_client::LockClient as LockStub;
use super::proto::v3lockpb::{LockRequest, UnlockRequest};
use crate::system::LockClient;

/// A client with a connection and a lease of its own.
pub(crate) struct EtcdClient {
    locks: LockStub<Channel>,
    lease: i64,
    /// The key that holds the lock, named by the server.
    key: Vec<u8>,
}

impl EtcdClient {
    /// Connects to a server and has it grant a lease that lasts `expiry`. The lease is not renewed.
    pub(crate) async fn connect(address: SocketAddr, expiry: Duration) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
        let wanted = LeaseGrantRequest { ttl: i64::try_from(expiry.as_secs())?, id: 0 };
        let granted =
            LeaseClient::new(channel.clone()).lease_grant(wanted).await.context("granting a lease")?;
        Ok(EtcdClient { locks: LockStub::new(channel), lease: granted.into_inner().id, key: Vec::new() })
    }
}

impl LockClient for EtcdClient {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        let request = LockRequest { name: lock.as_bytes().to_vec(), lease: self.lease };
        let granted = self.locks.lock(request).await.context("locking")?.into_inner();
        self.key = granted.key;
        Ok(Some(granted.header.context("a grant without a revision")?.revision))
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let request = UnlockRequest { key: std::mem::take(&mut self.key) };
        self.locks.unlock(request).await.context("unlocking").map(drop)
    }
}
