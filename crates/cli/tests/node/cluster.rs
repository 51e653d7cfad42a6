//! Sites that start, leave, and start again.

use meshlock_testing::{BoundedCommand, WITHIN, eventually, within_steps};
use meshlock_wire::clients::ToClient;
use rustix::process::Signal;

use crate::site::{Files, Process, fails, json, meshlock, says};

fn members(files: &Files, site: &str) -> Vec<String> {
    let document = json(files.home(), &["site", "list", "--socket", &files.path(&format!("{site}.sock"))]);
    let sites = document["sites"].as_array().unwrap();
    sites.iter().map(|site| site["site"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_single_site_needs_no_configuration_and_is_found_by_its_user() {
    let files = Files::new(0, false, "");
    let mut command = meshlock(files.home());
    command.arg("node");
    let mut node = Process::start(command, files.home().join("log"));
    let line = node.line();
    assert!(line.starts_with("local is ready: view ") && line.contains(" with local; clients: "), "{line}");
    let text = says(files.home(), &["status"]);
    assert!(
        text.starts_with("local (incarnation ") && text.contains(") is a member of the cluster."),
        "{text}"
    );
    let second = meshlock(files.home()).arg("node").output_in_time();
    let error = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(64), "{error}");
    assert!(error.contains("meshlock/local is in use by process"), "{error}");
    let error = fails(files.home(), 64, &["node", "--data", &files.path("other")]);
    assert!(error.contains("another node serves clients at"), "{error}");
    node.signal(Signal::TERM);
    assert_eq!(node.end().code(), Some(0), "{}", node.log());
    fails(files.home(), 69, &["status"]);
}

#[test]
fn a_site_leaves_when_it_is_terminated_and_joins_again_when_it_is_restarted() {
    let files = Files::new(3, true, "");
    let mut sites = files.start_all(&["a", "b", "c"]);
    eventually("all have heard of all", || members(&files, "a") == ["a", "b", "c"]);
    sites[2].signal(Signal::TERM);
    assert_eq!(sites[2].end().code(), Some(0));
    assert!(sites[2].log().contains("left the cluster"), "{}", sites[2].log());
    eventually("b has heard of it", || members(&files, "b") == ["a", "b"]);
    let again = files.start_all(&["c"]);
    eventually("it takes part again", || members(&files, "a") == ["a", "b", "c"]);
    drop(again);
}

#[test]
fn a_second_process_under_the_name_of_a_running_site_is_refused_and_named_in_the_logs_of_both() {
    let files = Files::new(3, false, "[lease]\nlength = '2s'\nmargin = '300ms'\nrenew_every = '300ms'\n");
    let mut sites = files.start_all(&["a", "b", "c"]);
    eventually("all have heard of all", || members(&files, "a") == ["a", "b", "c"]);
    let mut holders = ["a", "b", "c"].map(|site| files.client(site, "holder"));
    for (at, holder) in holders.iter_mut().enumerate() {
        holder.acquire(&format!("held-{at}"));
    }
    let status =
        |site: &str| json(files.home(), &["status", "--socket", &files.path(&format!("{site}.sock"))]);
    let before = status("a")["view"].clone();
    let address = before["members"][2]["address"].as_str().unwrap().to_owned();
    // The same configuration, with a disk, a socket and an address of its own.
    let text = std::fs::read_to_string(files.path("c.toml")).unwrap();
    let text = text.replace("data-c", "data-second").replace("'c.sock'", "'second.sock'");
    let text = format!("listen = '127.0.0.1:0'\nadvertise = '127.0.0.1:1'\n{text}");
    std::fs::write(files.path("second.toml"), text).unwrap();
    let second = files.start("second");
    eventually("the second process says that it is refused", || {
        second.log().contains("another process runs as c") && second.log().contains(&address)
    });
    let told = "another process runs under the name of a site that takes part, and is refused";
    eventually("the first process says so", || sites[2].log().contains(told));
    let refused = "two processes run under the name of this site, and the second one is refused";
    eventually("another site says so", || sites[0].log().contains(refused));
    // Nobody is disturbed for more than two leases.
    eventually("all locks are held for long", || {
        ["a", "b", "c"].iter().all(|site| {
            let held = status(site)["held"].as_array().cloned().unwrap_or_default();
            held.iter().any(|held| held["held_ms"].as_u64().unwrap_or(0) > 5_000)
        })
    });
    assert_eq!(status("a")["view"]["epoch"], before["epoch"]);
    // When the first process is gone, the second one takes its place, as after a restart.
    sites[2].signal(Signal::KILL);
    sites[2].end();
    assert!(second.line().starts_with("c is ready: view "), "{}", second.log());
}

#[test]
fn clients_that_do_not_stop_in_time_are_told_that_they_lost_their_locks() {
    let files = Files::new(1, false, "shutdown_grace = '100ms'\n");
    let mut sites = files.start_all(&["a"]);
    let mut client = files.client("a", "test");
    client.acquire("jobs");
    sites[0].signal(Signal::TERM);
    assert!(matches!(client.receive(), ToClient::Lost { .. }));
    assert_eq!(sites[0].end().code(), Some(0));
    let log = sites[0].log();
    assert!(
        log.contains("they are told that they have lost them") && log.contains("left the cluster"),
        "{log}"
    );
}

#[test]
fn a_second_signal_ends_a_site_at_once() {
    let files = Files::new(1, false, "shutdown_grace = '1h'\n[lease]\nlength = '1h'\n");
    let mut sites = files.start_all(&["a"]);
    let mut client = files.client("a", "test");
    client.acquire("jobs");
    sites[0].signal(Signal::INT);
    // It has seen the first signal when it refuses acquisitions.
    let mut attempts = 0;
    eventually("it refuses acquisitions", || {
        attempts += 1;
        client.want(&format!("other-{attempts}"));
        matches!(client.receive(), ToClient::Refused { why, .. } if why.contains("leaving"))
    });
    sites[0].signal(Signal::INT);
    assert_eq!(sites[0].end().code(), Some(130));
}

#[test]
fn a_site_that_is_not_in_the_list_of_sites_joins_through_one_that_is() {
    let files = Files::new(2, false, "");
    let _sites = files.start_all(&["a", "b"]);
    let socket = files.path("a.sock");
    let config = json(files.home(), &["site", "add", "d", "--address", "127.0.0.1:0", "--socket", &socket]);
    let config = config["config"].as_str().unwrap().replace("0.0.0.0", "127.0.0.1");
    let (start, _) = config.split_once("\n[tls]").unwrap();
    let text = format!("{start}\ndata = 'data-d'\nsocket = 'd.sock'\ntls = 'off'\n");
    std::fs::write(files.home().join("d.toml"), text).unwrap();
    let _joined = files.start_all(&["d"]);
    eventually("all have heard of it", || members(&files, "a") == ["a", "b", "d"]);
    let error = fails(files.home(), 64, &["site", "add", "b", "--socket", &socket]);
    assert!(error.contains("is already a member"), "{error}");
}

#[test]
fn a_site_joins_by_the_address_of_any_other_and_learns_the_rest() {
    for tls in [false, true] {
        let files = Files::new(2, tls, "cluster = 'prod'\n");
        let _sites = files.start_all(&["a", "b"]);
        let list = json(files.home(), &["site", "list", "--socket", &files.path("a.sock")]);
        let address = list["sites"][0]["address"].as_str().unwrap().to_owned();
        let mut command = meshlock(files.home());
        command.args(["node", "--site", "d", "--listen", "127.0.0.1:0", "--join", &address]);
        if tls {
            says(files.home(), &["ca", "issue", "d", "--dir", &files.path("ca")]);
            let of = |file: &str| files.path(&format!("ca/site-d/{file}.pem"));
            let text =
                format!("tls = {{ ca = '{}', cert = '{}', key = '{}' }}", of("ca"), of("cert"), of("key"));
            std::fs::write(files.home().join("d.toml"), text).unwrap();
            command.args(["--config", &files.path("d.toml")]);
        } else {
            command.arg("--plain");
        }
        let joined = Process::start(command, files.home().join("d.log"));
        let line = joined.line();
        assert!(line.starts_with("d is ready: view ") && line.contains("with a, b, d"), "{line}");
        eventually("its log says of which cluster", || joined.log().contains("cluster=prod"));
    }
}

#[test]
fn a_semaphore_without_a_majority_is_unavailable_when_the_wait_limit_has_passed() {
    let files = Files::new(3, false, "");
    // One site is no majority, so nothing can be granted.
    let site = files.start("a");
    eventually("it serves clients", || site.log().contains("started"));
    let socket = files.path("a.sock");
    for waiting in [&["--wait", "200ms"] as &[&str], &["--try"]] {
        let run = ["run", "pool", "--permits", "2", "--socket", &socket];
        let arguments = [&run as &[&str], waiting, &["--", "true"]].concat();
        let error = fails(files.home(), 69, &arguments);
        assert!(error.contains("1 of 3 voters is reachable"), "{error}");
    }
}

#[test]
fn a_site_whose_log_nobody_reads_becomes_a_member_all_the_same() {
    let files = Files::new(1, false, "");
    let (unread, full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    let fill = || rustix::io::write(&full, &[0; 4096]).is_err();
    within_steps("the pipe is full", fill);
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    let mut command = meshlock(files.home());
    command.args(["node", "--config", &files.path("a.toml")]).stderr(full);
    let site = Process::start_with(&mut command, files.home().join("a.log"));
    assert!(site.line().starts_with("a is ready: view "));
    drop(unread);
}

#[test]
fn a_service_manager_is_notified_when_a_site_is_ready_and_when_it_stops() {
    let files = Files::new(1, false, "");
    let path = files.path("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(WITHIN)).unwrap();
    let next_line = || {
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut command = meshlock(files.home());
    command.args(["node", "--config", &files.path("a.toml")]).env("NOTIFY_SOCKET", &path);
    let mut site = Process::start(command, files.home().join("a.log"));
    assert_eq!(next_line(), "READY=1");
    site.signal(Signal::TERM);
    assert_eq!(next_line(), "STOPPING=1");
    assert!(site.end().success());
}
