//! Generates the client of etcd's lock service from the same files as the node's own etcd API, with a compiler written in Rust, so that
//! `protoc` is not needed.

const FILES: [&str; 2] = ["etcd/rpc.proto", "etcd/lock.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../service/proto/etcd");
    let files = protox::compile(FILES, ["../service/proto"])?;
    tonic_prost_build::configure().build_server(false).compile_fds(files)?;
    Ok(())
}
