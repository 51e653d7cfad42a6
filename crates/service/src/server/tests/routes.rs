//! Every call is guarded.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::routes::{ROUTES, need};

/// Returns the path of every method of every service in `proto/`.
fn methods_of_grpc() -> BTreeSet<String> {
    fn read(dir: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, found);
                continue;
            }
            let (mut package, mut service) = (String::new(), String::new());
            for line in fs::read_to_string(path).unwrap().lines().map(str::trim) {
                if let Some(name) = line.strip_prefix("package ") {
                    package = name.trim_end_matches(';').to_owned();
                } else if let Some(name) = line.strip_prefix("service ") {
                    service = name.split([' ', '{']).next().unwrap().to_owned();
                } else if let Some(method) = line.strip_prefix("rpc ") {
                    found
                        .insert(format!("/{package}.{service}/{}", method.split('(').next().unwrap().trim()));
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("proto"), &mut found);
    found
}

/// Returns every path that a source file gives to a router: all strings in it that begin with a slash.
fn paths_of_http() -> BTreeSet<String> {
    fn read(dir: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("tests") {
                    read(&path, found);
                }
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            if !text.contains("use axum::routing") {
                continue;
            }
            let code = text.split("mod tests").next().unwrap();
            let quoted = code.split('"').skip(1).step_by(2);
            found.extend(quoted.filter(|text| text.len() > 1 && text.starts_with('/')).map(str::to_owned));
        }
    }
    let mut found = BTreeSet::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

#[test]
fn every_method_and_every_path_is_in_the_list_and_nothing_else_is() {
    let (methods, paths) = (methods_of_grpc(), paths_of_http());
    assert!(methods.len() > 20 && paths.len() > 30, "{} and {}", methods.len(), paths.len());
    let served: BTreeSet<&str> = methods.iter().chain(&paths).map(String::as_str).collect();
    let listed: BTreeSet<&str> = ROUTES.iter().map(|(_, path, _)| *path).collect();
    let without: Vec<&&str> = served.difference(&listed).collect();
    assert!(without.is_empty(), "no right is assigned to these: {without:?}");
    let nowhere: Vec<&&str> = listed.difference(&served).collect();
    assert!(nowhere.is_empty(), "these are not served: {nowhere:?}");
    let pairs: BTreeSet<(&str, &str)> = ROUTES.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(pairs.len(), ROUTES.len(), "one of them is listed twice");
}

#[test]
fn only_what_says_nothing_of_locks_is_open_to_everyone() {
    let open: Vec<&str> =
        ROUTES.iter().filter(|(_, _, need)| need.is_nothing()).map(|(_, at, _)| *at).collect();
    let says_who_it_is = ["/etcdserverpb.Auth/Authenticate", "/v3/auth/authenticate"];
    assert_eq!(
        open,
        [&["/healthz", "/readyz", "/health", "/version", "/openapi.json"] as &[_], &says_who_it_is].concat()
    );
    assert_eq!(need("POST", "/v1/locks"), None);
    assert_eq!(need("DELETE", "/v1/rules"), None);
    assert_eq!(need("HEAD", "/v1/rules"), need("GET", "/v1/rules"));
}
