//! The network of a test's sites: the loopback network, or a network namespace for each site.
//!
//! Another namespace routes between those of the sites, so that a cut is silent, as a real one is: a site's packets leave, and it
//! is not told that they were dropped. Each direction of each pair is a separate route, looked up by the sender's address:
//!
//! ```text
//!   site a (10.99.0.1) ── port-1 ┐                    ┌ port-2 ── site b (10.99.0.2)
//!                                └── hub: table 101 ──┘
//!                                    "blackhole 10.99.0.2" cuts a → b, and a → b only
//! ```

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use meshlock_testing::{BoundedChild, Loopback, needs_program, needs_root, skip};
use rustix::process::{Pid, test_kill_process};

use crate::site::meshlock;

/// Prefix of the names of this suite's namespaces; the id of the process that created them follows.
const PREFIX: &str = "meshlock-faults-";

/// The port that sites listen on.
const PORT: u16 = 7400;

/// Number of networks that this process has created, for unique names.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The network of one test.
pub(crate) enum Network {
    /// Loopback addresses that no other test uses.
    Loopback(Loopback),
    /// A namespace for each site.
    Cuttable(Namespaces),
}

impl Network {
    pub(crate) fn loopback() -> Self {
        Network::Loopback(Loopback::new())
    }

    /// Creates namespaces; `None` if that is not possible, and the test is skipped.
    pub(crate) fn namespaces(sites: usize) -> Option<Self> {
        if !needs_root("network namespaces") || !needs_program("ip") {
            return None;
        }
        match Namespaces::make(sites) {
            Ok(namespaces) => Some(Network::Cuttable(namespaces)),
            Err(why) => {
                let missing = format!("network namespaces, which cannot be made: {why}");
                skip(
                    &missing,
                    "run the tests with a kernel that has them, outside of a container without the right to make them",
                );
                None
            }
        }
    }

    pub(crate) fn address(&self, site: usize) -> SocketAddr {
        let ip = match self {
            Network::Loopback(network) => network.address(site),
            Network::Cuttable(_) => inner_address(site),
        };
        SocketAddr::from((ip, PORT))
    }

    /// Returns the command `meshlock`, to be run in the namespace of a site.
    pub(crate) fn meshlock(&self, site: usize, home: &Path) -> Command {
        let plain = meshlock(home);
        let Network::Cuttable(namespaces) = self else { return plain };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespaces.name(&site.to_string())]).arg(plain.get_program());
        for (key, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        command.stdin(Stdio::null());
        command
    }

    fn cuttable(&self) -> &Namespaces {
        let Network::Cuttable(namespaces) = self else { panic!("the loopback network cannot be cut") };
        namespaces
    }

    /// Drops packets from `from` to `to`, and only in this direction.
    pub(crate) fn cut_one_way(&self, from: usize, to: usize) {
        self.cuttable().hub(&[format!(
            "route replace blackhole {}/32 table {}",
            inner_address(to),
            table(from)
        )]);
    }

    /// Drops all packets between `some` and `others`, in both directions.
    pub(crate) fn cut(&self, some: &[usize], others: &[usize]) {
        for (&a, &b) in some.iter().flat_map(|a| others.iter().map(move |b| (a, b))) {
            self.cut_one_way(a, b);
            self.cut_one_way(b, a);
        }
    }

    /// Disconnects a site from the network.
    pub(crate) fn unplug(&self, site: usize) {
        self.cuttable().hub(&[format!("link set port-{site} down")]);
    }

    /// Repairs all cuts and connects all sites.
    pub(crate) fn heal(&self) {
        self.cuttable().heal();
    }
}

fn inner_address(site: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, 0, u8::try_from(site + 1).unwrap())
}

/// Returns the number of the routing table for packets of a site.
fn table(site: usize) -> usize {
    101 + site
}

/// Returns the commands that connect a site; disconnecting it removes its route.
fn plug(site: usize) -> [String; 2] {
    let route = format!("route replace {}/32 dev port-{site}", inner_address(site));
    [format!("link set port-{site} up"), route]
}

/// A namespace for each site and one that routes between them. Dropping this removes them.
pub(crate) struct Namespaces {
    sites: usize,
    network: u32,
}

impl Namespaces {
    fn make(sites: usize) -> Result<Self, String> {
        remove_leftovers();
        // From here on whatever was made is removed, also if not all could be.
        let made = Namespaces { sites, network: MADE.fetch_add(1, Ordering::Relaxed) };
        let hub = made.name("hub");
        ip(&["netns", "add", &hub])?;
        let mut routes = vec!["link set lo up".to_owned(), "address add 10.99.0.254/32 dev lo".to_owned()];
        for site in 0..sites {
            let (name, address) = (made.name(&site.to_string()), inner_address(site));
            ip(&["netns", "add", &name])?;
            let port = format!("port-{site}");
            ip(&["-n", &hub, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
            let inside = [
                "link set lo up".to_owned(),
                format!("address add {address}/32 dev eth0"),
                "link set eth0 up".to_owned(),
                "route add 10.99.0.254/32 dev eth0".to_owned(),
                "route add default via 10.99.0.254".to_owned(),
            ];
            batch(&name, &inside)?;
            routes.extend(plug(site));
            routes.push(format!("rule add from {address} lookup {}", table(site)));
        }
        batch(&hub, &routes)?;
        ip(&["netns", "exec", &hub, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        Ok(made)
    }

    fn name(&self, what: &str) -> String {
        format!("{PREFIX}{}-{}-{what}", std::process::id(), self.network)
    }

    fn hub(&self, commands: &[String]) {
        batch(&self.name("hub"), commands).unwrap();
    }

    fn heal(&self) {
        let cables = (0..self.sites).flat_map(plug);
        // A table that nothing was put into since it was emptied last does not exist.
        let cuts = (0..self.sites).flat_map(|site| {
            let any = format!("route replace blackhole 10.99.1.0/32 table {}", table(site));
            [any, format!("route flush table {}", table(site))]
        });
        self.hub(&cables.chain(cuts).collect::<Vec<_>>());
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let sites = (0..self.sites).map(|site| site.to_string());
        for what in sites.chain(["hub".to_owned()]) {
            let _ = ip(&["netns", "delete", &self.name(&what)]);
        }
    }
}

/// Removes namespaces of processes that were killed before they could remove them.
fn remove_leftovers() {
    let Ok(list) = ip(&["netns", "list"]) else { return };
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    for name in names {
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        let is_gone = |id: i32| Pid::from_raw(id).is_none_or(|id| test_kill_process(id).is_err());
        if maker.is_some_and(is_gone) {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// Runs several commands in a namespace.
fn batch(namespace: &str, commands: &[String]) -> Result<String, String> {
    run(&["-n", namespace, "-batch", "-"], &(commands.join("\n") + "\n"))
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    run(arguments, "")
}

fn run(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("ip (of iproute2) does not start: {error}"))?;
    // A command that fails early does not read all; what it says is below.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.output_in_time();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
