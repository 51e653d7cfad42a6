//! The protobuf messages and gRPC services that `build.rs` generates from `proto/`.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated; the files in proto/ explain it"
)]

pub(crate) mod mvccpb {
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/mvccpb.serde.rs"));
}

pub(crate) mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.serde.rs"));
}

pub(crate) mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.serde.rs"));
}

pub(crate) mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.serde.rs"));
}

pub(crate) mod meshlock {
    include!(concat!(env!("OUT_DIR"), "/meshlock.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/meshlock.v1.serde.rs"));
}
