//! Generates Rust code from `proto/` with a compiler written in Rust, so that `protoc` is not needed. All messages
//! have a JSON form too.

use std::path::PathBuf;

use prost::Message;

const FILES: [&str; 5] =
    ["etcd/kv.proto", "etcd/rpc.proto", "etcd/lock.proto", "etcd/election.proto", "meshlock/v1.proto"];
const ETCD: [&str; 4] = [".mvccpb", ".etcdserverpb", ".v3lockpb", ".v3electionpb"];
const OWN: [&str; 1] = [".meshlock.v1"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    let descriptors = files.encode_to_vec();
    tonic_prost_build::configure().build_client(false).compile_fds(files)?;
    // Write zero and empty fields too, so that a reader of an answer sees every field that there is.
    json(&descriptors)?.emit_fields().build(&OWN)?;
    json(&descriptors)?.ignore_unknown_fields().build(&ETCD)?;
    Ok(())
}

fn json(descriptors: &[u8]) -> Result<pbjson_build::Builder, Box<dyn std::error::Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut builder = pbjson_build::Builder::new();
    builder.register_descriptors(descriptors)?.preserve_proto_field_names().out_dir(out);
    Ok(builder)
}
