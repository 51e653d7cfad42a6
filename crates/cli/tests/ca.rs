//! `meshlock ca` as a user runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use meshlock_testing::BoundedCommand;
use meshlock_tls::{Bearer, Files, Identity};

fn ca(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    command.arg("ca").args(arguments).current_dir(dir).output_in_time()
}

fn says(dir: &Path, arguments: &[&str]) -> String {
    let output = ca(dir, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = ca(dir, arguments);
    assert_eq!(output.status.code(), Some(64), "{arguments:?}");
    assert!(output.stdout.is_empty(), "nothing on stdout but results");
    String::from_utf8(output.stderr).expect("output is UTF-8")
}

#[test]
fn an_authority_is_created_and_issues_everything_a_site_needs() {
    let dir = tempfile::tempdir().unwrap();
    let text = says(dir.path(), &["init"]);
    assert!(text.contains("meshlock-ca/ca-key.pem  its key: keep it here"), "{text}");
    assert!(text.ends_with("Next, for every site: meshlock ca issue SITE\n"), "{text}");
    let text = says(dir.path(), &["issue", "db-1"]);
    assert!(
        text.starts_with("A certificate for the site 'db-1' (meshlock://site/db-1), valid for 730 days:"),
        "{text}"
    );
    assert!(text.contains("Next: copy meshlock-ca/site-db-1 to the machine of that site"), "{text}");
    let files = Files::in_directory(&dir.path().join("meshlock-ca/site-db-1"));
    assert_eq!(Identity::load(&files).unwrap().bearer(), &Bearer::Site("db-1".parse().unwrap()));
    assert_eq!(fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_client_certificate_differs_from_a_site_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let document: serde_json::Value =
        serde_json::from_str(&says(dir.path(), &["init", "--dir", "x/y", "--days", "100", "--json"]))
            .unwrap();
    assert_eq!((&document["certificate"], &document["days"]), (&"x/y/ca.pem".into(), &100.into()));
    let text = says(dir.path(), &["issue", "laptop", "--client", "--dir", "x/y", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["uri"], "meshlock://client/laptop");
    let file = |key: &str| dir.path().join(document[key].as_str().unwrap());
    let files = Files { authority: file("authority"), certificate: file("certificate"), key: file("key") };
    assert_eq!(Identity::load(&files).unwrap().bearer(), &Bearer::Client("laptop".parse().unwrap()));
}

#[test]
fn errors_name_the_existing_or_missing_file_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let text = refused(dir.path(), &["issue", "a"]);
    assert!(
        text.contains("meshlock-ca: there is no authority here; make one with `meshlock ca init`"),
        "{text}"
    );
    says(dir.path(), &["init"]);
    let key = dir.path().join("meshlock-ca/ca-key.pem");
    let before = fs::read(&key).unwrap();
    let text = refused(dir.path(), &["init"]);
    assert!(text.contains("meshlock-ca/ca.pem exists, and is never overwritten; move it away"), "{text}");
    assert_eq!(fs::read(&key).unwrap(), before);
    says(dir.path(), &["issue", "a"]);
    let text = refused(dir.path(), &["issue", "a"]);
    assert!(text.contains("meshlock-ca/site-a exists, and is never overwritten"), "{text}");
    for (arguments, says) in [
        (&["issue", "a b"][..], "the site name 'a b' contains ' '"),
        (&["issue", "a b", "--client"], "'a b' cannot be the name of a client: use 1 to 64 letters"),
        (&["issue", "b", "--days", "0"], "0 is not in 1..=36500"),
    ] {
        let text = refused(dir.path(), arguments);
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
    fs::write(&key, "no key").unwrap();
    let text = refused(dir.path(), &["issue", "b"]);
    assert!(text.contains("meshlock-ca/ca-key.pem: no private key in PEM form is in it"), "{text}");
    assert!(!dir.path().join("meshlock-ca/site-b").exists());
}
