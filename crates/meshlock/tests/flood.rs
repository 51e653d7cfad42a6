//! Connections that say nothing, as many as a port has places and more: clients and sites are served all the same.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use meshlock::config::{AccessRule, Verb};
use meshlock::{Client, Endpoint, Node, NodeBuilder, Tls};
use meshlock_testing::{Loopback, async_test, in_own_process, in_time, silent_connections};
use meshlock_tls::{Bearer, Files, ca};

/// Networks of the flood, and connections from each: together more than a port has places, and from each more than its share.
const NETWORKS: u8 = 5;
const FROM_EACH: usize = 300;

fn tls(dir: &Path, bearer: &Bearer, hosts: &[String]) -> Tls {
    let Files { authority, certificate, key } = ca::issue_for(dir, bearer, hosts, ca::BEARER_DAYS).unwrap();
    Tls::from_files(authority, certificate, key).unwrap()
}

fn free_port(at: std::net::Ipv4Addr) -> SocketAddr {
    TcpListener::bind((at, 0)).unwrap().local_addr().unwrap()
}

#[test]
fn silent_connections_keep_neither_clients_nor_sites_out() {
    // It opens thousands of descriptors.
    in_own_process(|| {
        async_test(async {
            let (dir, network) = (tempfile::tempdir().unwrap(), Loopback::new());
            ca::init(dir.path(), ca::BEARER_DAYS).unwrap();
            let sites = ["a", "b"].map(|name| (name, free_port(network.address(usize::from(name == "b")))));
            let hosts: Vec<String> = sites.iter().map(|(_, address)| address.ip().to_string()).collect();
            let site = |name: &str| -> NodeBuilder {
                let bearer = Bearer::Site(name.parse().unwrap());
                Node::builder()
                    .site(name)
                    .sites(sites.map(|(name, address)| (name, address.to_string())))
                    .tls(tls(dir.path(), &bearer, &hosts))
                    .data(dir.path().join(format!("data-{name}")))
            };
            let clients = free_port(network.address(0));
            let rule = AccessRule::new("ci", "*", [Verb::Acquire]);
            let (first, second) = (site("a").clients(clients.to_string()).access(rule), site("b"));
            let a = first.start().unwrap();
            let b = second.clone().start().unwrap();
            drop(in_time("a cluster of two", b.lock("jobs")).await.unwrap());

            let _flood = [clients, sites[0].1].map(|port| silent_connections(port, NETWORKS, FROM_EACH));
            let endpoint = Endpoint::tcp(
                &clients.to_string(),
                &tls(dir.path(), &Bearer::Client("ci".parse().unwrap()), &[]),
            );
            let client = in_time("a client is let in", Client::connect([endpoint.unwrap()])).await.unwrap();
            drop(in_time("it is served", client.lock("jobs")).await.unwrap());

            in_time("b leaves", b.leave()).await;
            drop(b);
            let b = second.start().unwrap();
            drop(in_time("b is let in again", b.lock("jobs")).await.unwrap());
            drop(in_time("the client goes on", client.lock("jobs")).await.unwrap());
            drop(a);
        });
    });
}
