//! Three sites with APIs and doors for clients on the loopback network, which can be killed and started again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use meshlock_testing::eventually;
use rustix::process::Signal;

use crate::site::{Client, Files, Process, json, meshlock};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// As short as elections allow on a busy machine.
const LEASE: &str = "[lease]\nlength = '2s'\nmargin = '500ms'\nrenew_every = '300ms'\n";

/// Running sites. Dropping this kills them.
pub(crate) struct Cluster {
    files: Files,
    apis: Vec<SocketAddr>,
    /// The addresses at which the sites serve clients for Rust.
    doors: Vec<SocketAddr>,
    sites: Vec<Option<Process>>,
}

impl Cluster {
    /// Starts three sites and waits until all take part.
    pub(crate) fn start() -> Self {
        // Ports that were free a moment ago: a site that is started again has the same.
        let listeners: Vec<TcpListener> =
            (0..2 * NAMES.len()).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let mut apis: Vec<SocketAddr> =
            listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let doors = apis.split_off(NAMES.len());
        let files = Files::new(NAMES.len(), false, LEASE);
        for (name, door) in NAMES.iter().zip(&doors) {
            let path = files.path(&format!("{name}.toml"));
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, format!("clients = '{door}'\n{text}")).unwrap();
        }
        drop(listeners);
        let mut cluster = Cluster { files, apis, doors, sites: NAMES.iter().map(|_| None).collect() };
        for site in 0..NAMES.len() {
            cluster.begin(site);
        }
        for site in 0..NAMES.len() {
            cluster.until_ready(site);
        }
        cluster.until_members(0, &NAMES);
        cluster
    }

    fn begin(&mut self, site: usize) {
        let api = self.apis[site].to_string();
        self.sites[site] = Some(self.files.start_with(NAMES[site], &["--api", &api]));
    }

    fn until_ready(&self, site: usize) {
        let line = self.sites[site].as_ref().unwrap().line();
        assert!(line.starts_with(&format!("{} is ready: view ", NAMES[site])), "{line}");
    }

    /// Kills a site and waits until its process has ended.
    pub(crate) fn kill(&mut self, site: usize) {
        let mut process = self.sites[site].take().unwrap();
        process.signal(Signal::KILL);
        process.end();
    }

    /// Stops a site by a signal, and waits until its process has ended.
    pub(crate) fn stop(&mut self, site: usize) {
        let mut process = self.sites[site].take().unwrap();
        process.signal(Signal::TERM);
        assert!(process.end().success(), "{}", process.log());
    }

    /// Tells a site to leave the cluster, which it does when nothing is held through it. Returns the command, which waits for that.
    pub(crate) fn begin_to_leave(&self, site: usize) -> Process {
        let socket = self.files.path(&format!("{}.sock", NAMES[site]));
        let mut remove = meshlock(self.files.home());
        remove.args(["site", "remove", NAMES[site], "--yes", "--socket", &socket]);
        let removing = Process::start(remove, self.files.home().join("remove.log"));
        let status = || json(self.files.home(), &["status", "--socket", &socket]);
        eventually("it leaves", || status()["leaving"] == true);
        removing
    }

    /// Connects a client to the socket of a site.
    pub(crate) fn client_of(&self, site: usize) -> Client {
        self.files.client(NAMES[site], "test")
    }

    /// Waits until a site mirrors a session of the one before it.
    pub(crate) fn until_mirrored(&self, site: usize) {
        eventually(&format!("{} mirrors a session", NAMES[site]), || {
            let mut stream = TcpStream::connect(self.apis[site]).unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
            page.lines().any(|line| line == "meshlock_mirrored_sessions 1")
        });
    }

    /// Starts a site again and waits until all take part.
    pub(crate) fn start_again(&mut self, site: usize) {
        self.begin(site);
        self.until_ready(site);
        self.until_members(site, &NAMES);
    }

    fn until_members(&self, site: usize, members: &[&str]) {
        let socket = self.files.path(&format!("{}.sock", NAMES[site]));
        eventually(&format!("{} says that {members:?} take part", NAMES[site]), || {
            let list = json(self.files.home(), &["site", "list", "--socket", &socket]);
            let sites = list["sites"].as_array().unwrap();
            sites.iter().map(|site| site["site"].as_str().unwrap()).eq(members.iter().copied())
        });
    }

    /// Returns through which site a lock is held and with which fence, as a site knows it; `None` if nobody holds it.
    pub(crate) fn holder(&self, asked: usize, lock: &str) -> Option<(usize, String)> {
        let socket = self.files.path(&format!("{}.sock", NAMES[asked]));
        let queue = json(self.files.home(), &["queue", lock, "--socket", &socket]);
        let [holder] = queue["holders"].as_array()?.as_slice() else { return None };
        let site = NAMES.iter().position(|name| holder["site"] == *name)?;
        Some((site, holder["fence"].as_str()?.to_owned()))
    }

    /// Returns how many wait for a lock, as a site knows it.
    pub(crate) fn waiters(&self, asked: usize, lock: &str) -> usize {
        let socket = self.files.path(&format!("{}.sock", NAMES[asked]));
        let queue = json(self.files.home(), &["queue", lock, "--socket", &socket]);
        queue["waiters"].as_array().map_or(0, Vec::len)
    }

    /// Returns the addresses of the APIs, as clients take them, beginning with that of a site.
    pub(crate) fn places(&self, first: usize) -> String {
        let mut apis: Vec<String> = self.apis.iter().map(|api| format!("http://{api}")).collect();
        apis.rotate_left(first % NAMES.len());
        apis.join(",")
    }

    /// Returns the addresses at which the sites serve clients for Rust, beginning with that of a site.
    pub(crate) fn doors(&self, first: usize) -> Vec<String> {
        let mut doors: Vec<String> = self.doors.iter().map(ToString::to_string).collect();
        doors.rotate_left(first % NAMES.len());
        doors
    }

    pub(crate) fn home(&self) -> &Path {
        self.files.home()
    }
}
