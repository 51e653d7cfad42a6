//! How sites find a cluster: several addresses, names, services, and pods that share one file.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use meshlock_testing::{Loopback, WITHIN, eventually};
use meshlock_wire::dns::{SrvTarget, answer_of};
use rustix::process::Signal;

use super::load::{Load, hold, is_still_held};
use super::runbook::{Runbook, commands_of};
use super::site::{Files, Process, fails, json, meshlock};
use super::voters::{until_survives, voters};

/// Leases are short, so that a site that was killed is soon excluded.
const SHORT: &str = "[lease]\nlength = '2s'\nmargin = '300ms'\nrenew_every = '300ms'\n";

/// Returns the address of the first site.
fn first_address(files: &Files) -> SocketAddr {
    let list = json(files.home(), &["site", "list", "--socket", &files.path("a.sock")]);
    list["sites"][0]["address"].as_str().unwrap().parse().unwrap()
}

/// Starts a site `d` that looks for the cluster at these places.
fn join(files: &Files, places: &[&str], variables: &[(&str, &str)]) -> Process {
    let options: Vec<&str> = places.iter().flat_map(|place| ["--join", place]).collect();
    start_with(files, "d", &options, variables)
}

/// Starts a site without a file.
fn start_with(files: &Files, name: &str, options: &[&str], variables: &[(&str, &str)]) -> Process {
    let mut command = meshlock(files.home());
    let [data, socket] = [format!("data-{name}"), format!("{name}.sock")].map(|file| files.path(&file));
    command.args(["node", "--site", name, "--plain", "--listen", "127.0.0.1:0", "--data", &data]);
    command.args(["--socket", &socket]).args(options);
    command.envs(variables.iter().copied());
    Process::start(command, files.home().join(format!("{name}.log")))
}

fn members(files: &Files, site: &str) -> usize {
    let list = json(files.home(), &["site", "list", "--socket", &files.path(&format!("{site}.sock"))]);
    list["sites"].as_array().unwrap().len()
}

#[test]
fn of_several_places_one_that_answers_is_enough_also_a_name() {
    let files = Files::new(1, false, "");
    let _sites = files.start_all(&["a"]);
    let address = first_address(&files).to_string();
    // Nobody listens on the discard port, and nobody has this name.
    let mut joined = join(&files, &["127.0.0.1:9", "nobody.invalid:7400", &address], &[]);
    joined.until_line("d is ready");
    joined.signal(Signal::TERM);
    assert!(joined.end().success());
    fs::remove_dir_all(files.path("data-d")).unwrap();
    let name = format!("dns:localhost:{}", first_address(&files).port());
    join(&files, &["dns:nobody.invalid:7400", &name], &[]).until_line("d is ready");
}

/// A name server that knows one service: the ports of those that were published.
struct NameServer {
    address: SocketAddr,
    knows: Arc<Mutex<Vec<u16>>>,
}

impl NameServer {
    fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(WITHIN)).unwrap();
        let (address, knows) = (socket.local_addr().unwrap(), Arc::<Mutex<Vec<u16>>>::default());
        let told = knows.clone();
        // It ends with the test's process, or when nobody has asked for long.
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let query = &bytes[..length];
                let target = |port: &u16| SrvTarget {
                    priority: 1,
                    weight: 1,
                    port: *port,
                    host: "localhost".to_owned(),
                };
                let known: Vec<SrvTarget> = told.lock().unwrap().iter().map(target).collect();
                let mut answer = answer_of(query, &known);
                if known.is_empty() {
                    // There is no such name.
                    answer[3] = 3;
                }
                let _ = socket.send_to(&answer, from);
            }
        });
        NameServer { address, knows }
    }
}

#[test]
fn a_service_is_looked_up_again_and_again_until_it_is_there() {
    let files = Files::new(1, false, "");
    let _sites = files.start_all(&["a"]);
    let server = NameServer::start();
    let resolver = server.address.to_string();
    let joined = join(&files, &["dns+srv:_meshlock._tcp.test"], &[("MESHLOCK_RESOLVER", &resolver)]);
    eventually("the log says what was tried", || {
        let log = joined.log();
        log.contains("no answer from the cluster to be joined yet")
            && log.contains("dns+srv:_meshlock._tcp.test: ")
            && log.contains(&format!("{resolver}: the name server says: no such name"))
    });
    server.knows.lock().unwrap().push(first_address(&files).port());
    joined.until_line("d is ready");
}

/// Returns the port at which a site is, as another one knows it.
fn port_of(files: &Files, name: &str, asked: &str) -> u16 {
    let list = json(files.home(), &["site", "list", "--socket", &files.path(&format!("{asked}.sock"))]);
    let sites = list["sites"].as_array().unwrap();
    let site = sites.iter().find(|site| site["site"] == name).unwrap();
    site["address"].as_str().unwrap().parse::<SocketAddr>().unwrap().port()
}

#[test]
fn sites_join_by_a_name_alone_by_the_commands_of_the_document_also_when_the_first_site_has_gone() {
    let steps = commands_of("### Joining by a name");
    assert_eq!(steps.len(), 3, "{steps:?}");
    let files = Files::new(3, false, "");
    let names = ["a", "b", "c"];
    let started = names.iter().map(|name| (*name).to_owned()).zip(files.start_all(&names));
    let mut sites: BTreeMap<String, Process> = started.collect();
    until_survives(&files, "b", 1);
    let server = NameServer::start();
    let (resolver, mut ports) = (server.address.to_string(), BTreeMap::new());
    let (_holder, fence) = hold(&files, "b");
    let load = Load::start(&files, &["b", "c"]);
    let variables = [("SITES", "a b c"), ("PLACE", "dns+srv:_meshlock._tcp.example")];
    let words = ["publish", "withdraw", "start", "stop"];
    let runbook = Runbook { home: files.home(), asks: "b", words: &words, variables: &variables };
    let mut act = |word: &str, arguments: &[&str]| {
        let (name, options) = (arguments[0], &arguments[1..]);
        match word {
            "publish" => {
                let port = *ports.entry(name.to_owned()).or_insert_with(|| port_of(&files, name, "b"));
                server.knows.lock().unwrap().push(port);
            }
            "withdraw" => server.knows.lock().unwrap().retain(|port| *port != ports[name]),
            "start" => {
                let site = start_with(&files, name, options, &[("MESHLOCK_RESOLVER", &resolver)]);
                site.until_line(&format!("{name} is ready"));
                sites.insert(name.to_owned(), site);
            }
            _ => {
                let mut site = sites.remove(name).unwrap();
                site.signal(Signal::TERM);
                assert!(site.end().success(), "{}", site.log());
            }
        }
        (String::new(), 0)
    };
    runbook.run(&steps[0], &mut act);
    runbook.run(&steps[1], &mut act);
    load.goes_on(&["b", "c"]);
    let said = runbook.run(&steps[2], &mut act);
    assert!(said.contains("d votes in the place of a.") && said.contains("a has left."), "{said}");
    assert_eq!(voters(&files, "e"), (["b", "c", "d"].map(str::to_owned).to_vec(), Some(1)));
    is_still_held(&files, "e", &fence);
    load.goes_on(&["b", "c"]);
    load.end();
}

#[test]
fn a_site_that_has_joined_before_starts_also_while_nobody_answers_and_finds_the_others_later() {
    let files = Files::new(2, false, SHORT);
    let mut sites = files.start_all(&["a", "b"]);
    let address = first_address(&files).to_string();
    let mut joined = join(&files, &[&address], &[]);
    joined.until_line("d is ready");
    // The power fails.
    for site in sites.iter_mut().chain([&mut joined]) {
        site.signal(Signal::KILL);
        site.end();
    }
    let joined = join(&files, &[&address], &[]);
    eventually("it has started", || joined.log().matches("started").count() == 2);
    let _sites = files.start_all(&["a", "b"]);
    joined.until_line("d is ready");
    eventually("all are members again", || members(&files, "a") == 3);
}

#[test]
fn places_that_make_no_sense_are_named() {
    let files = Files::new(0, false, "");
    for (arguments, why) in [
        (["--join", "dns:nowhere"], "'dns:nowhere' is not a place to join"),
        (["--join", "dns+srv:a b"], "'dns+srv:a b' is not a place to join"),
        (["--bootstrap-expect", "3"], "set `site`, or give --site"),
    ] {
        let error = fails(files.home(), 64, &[&["node", "--plain", "--check"][..], &arguments].concat());
        assert!(error.contains(why), "{error}");
    }
}

/// A directory with one file for all pods of a set.
struct Pods {
    files: Files,
    /// Where each of them is, with its number for `{ordinal}`.
    address: String,
}

impl Pods {
    fn new() -> Self {
        let files = Files::new(0, false, "");
        let [first, second, third, _] = Loopback::new().address(0).octets();
        let address = format!("{first}.{second}.{third}.{{ordinal}}:7399");
        let text = format!("bootstrap_expect = 3\nadvertise = '{address}'\ntls = 'off'\n{SHORT}");
        fs::write(files.path("node.toml"), text).unwrap();
        Pods { files, address }
    }

    fn start(&self, number: usize) -> Process {
        let pod = format!("pod-{number}");
        let mut command = meshlock(self.files.home());
        let [config, data] = ["node.toml", &format!("data-{pod}")].map(|file| self.files.path(file));
        command.args(["node", "--site", &pod, "--config", &config, "--data", &data]);
        command.args(["--socket", &self.files.path(&format!("{pod}.sock"))]);
        // By default one that was added later listens at all addresses of its machine, which other tests use as well.
        command.args(["--listen", &self.address.replace("{ordinal}", &number.to_string())]);
        Process::start(command, self.files.home().join(format!("{pod}.log")))
    }

    fn epoch(&self, number: usize) -> u64 {
        let status =
            json(self.files.home(), &["status", "--socket", &self.files.path(&format!("pod-{number}.sock"))]);
        status["view"]["epoch"].as_u64().unwrap()
    }
}

#[test]
fn pods_with_one_file_found_one_cluster_once_and_a_lost_disk_founds_no_second_one() {
    let pods = Pods::new();
    let mut first = pods.start(0);
    eventually("one pod alone waits", || first.log().contains("not yet a member of the cluster"));
    let mut others: Vec<Process> = [1, 2].map(|number| pods.start(number)).into();
    for (number, pod) in std::iter::once(&first).chain(&others).enumerate() {
        pod.until_line(&format!("pod-{number} is ready"));
    }
    eventually("all are members of one cluster", || members(&pods.files, "pod-0") == 3);
    // A pod that was added later has the same file.
    let added = pods.start(3);
    added.until_line("pod-3 is ready");
    // One comes back without its disk: it is taken in again, by the cluster that there is.
    let before = pods.epoch(0);
    others[0].signal(Signal::KILL);
    others[0].end();
    fs::remove_dir_all(pods.files.path("data-pod-1")).unwrap();
    others[0] = pods.start(1);
    others[0].until_line("pod-1 is ready");
    assert!(pods.epoch(1) > before, "{} and {before}", pods.epoch(1));
    eventually("all are members", || members(&pods.files, "pod-0") == 4);
    // Alone and without a disk it founds nothing.
    drop(added);
    for pod in others.iter_mut().chain([&mut first]) {
        pod.signal(Signal::KILL);
        pod.end();
    }
    fs::remove_dir_all(pods.files.path("data-pod-1")).unwrap();
    let alone = pods.start(1);
    eventually("it waits for the others", || {
        alone.log().lines().filter(|line| line.contains("not yet a member of the cluster")).count() >= 1
            && alone.log().contains("pod-0 at ")
    });
}
