//! Errors that programs can match, with the operating system's error as their source.

use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use meshlock::{
    AcquireError, CertificateCause, Client, ConnectError, DataFault, Endpoint, FoundingFault, Node,
    StartError, Tls, TlsError,
};
use meshlock_testing::blocking_test;
use meshlock_tls::{Bearer, ca};

/// Returns the kind of the operating system's error behind another error.
fn kind_of(error: &dyn Error) -> Option<io::ErrorKind> {
    error.source()?.downcast_ref::<io::Error>().map(io::Error::kind)
}

/// Makes an authority, and a certificate of it for `bearer`.
fn certified(bearer: &Bearer) -> (tempfile::TempDir, Tls) {
    let authority = tempfile::tempdir().unwrap();
    ca::init(authority.path(), ca::AUTHORITY_DAYS).unwrap();
    ca::issue(authority.path(), bearer, ca::BEARER_DAYS).unwrap();
    let tls = Tls::from_dir(authority.path().join(dir_of(bearer))).unwrap();
    (authority, tls)
}

fn dir_of(bearer: &Bearer) -> String {
    match bearer {
        Bearer::Site(name) => format!("site-{name}"),
        Bearer::Client(name) => format!("client-{name}"),
    }
}

fn client(name: &str) -> Bearer {
    Bearer::Client(name.parse().unwrap())
}

#[test]
fn nobody_at_an_address_is_unreachable() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = Client::connect_blocking([Endpoint::tcp_plaintext(&free).unwrap()]).unwrap_err();
    assert!(matches!(&error, ConnectError::Unreachable { endpoint, .. } if *endpoint == free), "{error:?}");
    assert!(error.is_unreachable());
    assert_eq!(kind_of(&error), Some(io::ErrorKind::ConnectionRefused));
    let nobody: [Endpoint; 0] = [];
    assert!(matches!(Client::connect_blocking(nobody), Err(ConnectError::NoEndpoint)));
}

#[test]
fn a_node_that_does_not_trust_a_client_was_reached() {
    let (_ours, site) = certified(&Bearer::Site("local".parse().unwrap()));
    let (_others, stranger) = certified(&client("ci"));
    let node = Node::builder().in_memory().tls(site).clients("127.0.0.1:0").start().unwrap();
    let address = node.clients_address().unwrap().to_string();
    for endpoint in [Endpoint::tcp(&address, &stranger), Endpoint::tcp_plaintext(&address)] {
        let error = Client::connect_blocking([endpoint.unwrap()]).unwrap_err();
        let is_named = matches!(&error, ConnectError::Untrusted { endpoint, .. } if *endpoint == address);
        assert!(is_named, "{error:?}");
        assert!(!error.is_unreachable(), "{error}");
    }
}

#[test]
fn a_lock_of_a_node_that_is_gone_is_unreachable_with_the_reason() {
    blocking_test(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        let node = Node::builder().in_memory().socket(&path).start().unwrap();
        let client = Client::connect_blocking([Endpoint::socket(&path)]).unwrap();
        let guard = client.lock_blocking("a").unwrap();
        drop(node);
        guard.wait_until_lost();
        let error = client.lock_blocking("a").unwrap_err();
        let AcquireError::Unreachable { lock, source, .. } = &error else { panic!("{error:?}") };
        assert!(lock == "a" && source.is_unreachable(), "{source:?}");
        assert!(error.source().is_some_and(|source| kind_of(source).is_some()), "{error:?}");
    });
}

#[test]
fn a_port_or_a_socket_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Node::builder().in_memory().plaintext().clients(&address).start().unwrap_err();
    assert!(matches!(&error, StartError::Listen { address: at, .. } if *at == address), "{error:?}");
    assert_eq!(kind_of(&error), Some(io::ErrorKind::AddrInUse));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.sock");
    let _first = Node::builder().in_memory().socket(&path).start().unwrap();
    let error = Node::builder().in_memory().socket(&path).start().unwrap_err();
    let at_path = |at: &str| Path::new(at) == path;
    assert!(matches!(&error, StartError::Listen { address, .. } if at_path(address)), "{error:?}");
    assert_eq!(kind_of(&error), Some(io::ErrorKind::AddrInUse));
}

#[cfg(feature = "api")]
#[test]
fn an_api_that_would_be_open_to_everyone_is_refused() {
    let error = Node::builder().in_memory().api("0.0.0.0:0").start().unwrap_err();
    assert!(matches!(&error, StartError::Listen { address, .. } if address == "0.0.0.0:0"), "{error:?}");
    assert_eq!(kind_of(&error), Some(io::ErrorKind::PermissionDenied));
}

#[test]
fn a_data_directory_that_cannot_be_used_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let start =
        |cluster: &str, site: &str| Node::builder().cluster(cluster).site(site).data(dir.path()).start();
    let cause = |error: &StartError| {
        let StartError::Data { path, cause, .. } = error else { return None };
        assert!(path.starts_with(dir.path()), "{error:?}");
        Some(*cause)
    };
    let first = start("shop", "a").unwrap();
    let error = start("shop", "a").unwrap_err();
    assert_eq!(cause(&error), Some(DataFault::InUse), "{error:?}");
    drop(first);
    let error = start("shop", "b").unwrap_err();
    assert_eq!(cause(&error), Some(DataFault::OtherSite), "{error:?}");
    let error = start("store", "a").unwrap_err();
    assert!(matches!(error, StartError::Founding { cause: FoundingFault::OtherCluster, .. }), "{error:?}");

    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Node::builder().data(file.join("below")).start().unwrap_err();
    assert!(matches!(&error, StartError::Data { cause: DataFault::Io, .. }), "{error:?}");
    assert_eq!(kind_of(&error), Some(io::ErrorKind::NotADirectory));
}

#[test]
fn certificates_that_cannot_be_used_say_which_and_why() {
    let (authority, _) = certified(&client("ci"));
    let (others, _) = certified(&client("ci"));
    let file = |authority: &tempfile::TempDir, name: &str| authority.path().join("client-ci").join(name);
    let (ca, cert, key) =
        (file(&authority, "ca.pem"), file(&authority, "cert.pem"), file(&authority, "key.pem"));

    let missing = Path::new("/nowhere/ca.pem");
    let error = Tls::from_files(missing, &cert, &key).unwrap_err();
    assert!(matches!(&error, TlsError::Unreadable { file, .. } if file == missing), "{error:?}");
    assert_eq!(kind_of(&error), Some(io::ErrorKind::NotFound));
    let error = Tls::from_files(file(&others, "ca.pem"), &cert, &key).unwrap_err();
    let is_other = |error: &TlsError| {
        matches!(error, TlsError::Certificate { cause: CertificateCause::OtherAuthority, .. })
    };
    assert!(is_other(&error), "{error:?}");
    let error = Tls::from_files(&ca, &cert, file(&others, "key.pem")).unwrap_err();
    assert!(matches!(error, TlsError::Key { .. }), "{error:?}");
    let error = Tls::from_pem(b"", b"", b"").unwrap_err();
    assert!(matches!(error, TlsError::NotPem { .. }), "{error:?}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = Tls::from_files(&ca, &cert, &key).unwrap_err();
    assert!(matches!(&error, TlsError::KeyIsOpen { file, .. } if *file == key), "{error:?}");
}

#[test]
fn errors_name_methods_of_the_builder_and_no_flags_of_the_command() {
    let two = [("a", "127.0.0.1:1"), ("b", "127.0.0.1:2")];
    for (builder, key, method) in [
        (Node::builder().sites(two), "site", "`site`"),
        (Node::builder().join(["127.0.0.1:1"]), "site", "`site`"),
        (Node::builder().sites(two).site("a").in_memory(), "tls", "`plaintext`"),
        (Node::builder().sites(two).site("a").plaintext(), "data", "`in_memory`"),
    ] {
        let error = builder.check().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.key(), Some(key), "{text}");
        assert!(text.contains(method) && !text.contains("--"), "{text}");
    }
}
