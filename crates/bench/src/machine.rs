//! Describes the machine on which a measurement was made.

use std::fmt;

use serde::Serialize;

/// The machine, its load before the run, and the versions of the peers.
#[derive(Debug, Serialize)]
pub(super) struct MachineInfo {
    cores: usize,
    processor: String,
    kernel: String,
    meshlock: &'static str,
    /// The load average of the last minute when the run began.
    load: f64,
    /// The other lock services, with the versions that they report.
    pub(super) peers: Vec<String>,
}

impl MachineInfo {
    pub(super) fn new() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
        let system = rustix::system::uname();
        let load = read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok());
        MachineInfo {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.unwrap_or("unknown").trim_start_matches([' ', '\t', ':']).to_owned(),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            meshlock: if cfg!(debug_assertions) { "debug build" } else { "release build" },
            load: load.unwrap_or(f64::NAN),
            peers: Vec::new(),
        }
    }
}

impl fmt::Display for MachineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MachineInfo { cores, processor, kernel, meshlock, load, peers } = self;
        write!(f, "{cores} cores ({processor}), {kernel}, {meshlock}, load before: {load}")?;
        for peer in peers {
            write!(f, "\n{peer}")?;
        }
        Ok(())
    }
}
