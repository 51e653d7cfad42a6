//! Three sites with APIs on the loopback network, which can be killed and started again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use meshlock_testing::eventually;
use rustix::process::Signal;

use crate::site::{Files, Process, json};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// As short as elections allow on a busy machine.
const LEASE: &str = "[lease]\nlength = '2s'\nmargin = '500ms'\nrenew_every = '300ms'\n";

/// Running sites. Dropping this kills them.
pub(crate) struct Cluster {
    files: Files,
    apis: Vec<SocketAddr>,
    sites: Vec<Option<Process>>,
}

impl Cluster {
    /// Starts three sites and waits until all take part.
    pub(crate) fn start() -> Self {
        // Ports that were free a moment ago: a site that is started again has the same.
        let listeners: Vec<TcpListener> =
            NAMES.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let apis = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let files = Files::new(NAMES.len(), false, LEASE);
        drop(listeners);
        let mut cluster = Cluster { files, apis, sites: NAMES.iter().map(|_| None).collect() };
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

    /// Returns how many hold a lock, as a site knows it.
    pub(crate) fn holders(&self, site: usize, lock: &str) -> usize {
        let socket = self.files.path(&format!("{}.sock", NAMES[site]));
        let queue = json(self.files.home(), &["queue", lock, "--socket", &socket]);
        queue["holders"].as_array().map_or(0, Vec::len)
    }

    /// Returns the addresses of the APIs, as clients take them, beginning with that of a site.
    pub(crate) fn places(&self, first: usize) -> String {
        let mut apis: Vec<String> = self.apis.iter().map(|api| format!("http://{api}")).collect();
        apis.rotate_left(first % NAMES.len());
        apis.join(",")
    }

    /// Returns the sockets of the sites, beginning with that of a site.
    pub(crate) fn sockets(&self, first: usize) -> String {
        let mut sockets: Vec<String> =
            NAMES.iter().map(|name| self.files.path(&format!("{name}.sock"))).collect();
        sockets.rotate_left(first % NAMES.len());
        sockets.join(",")
    }

    pub(crate) fn home(&self) -> &Path {
        self.files.home()
    }
}
