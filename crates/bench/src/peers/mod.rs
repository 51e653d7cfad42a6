//! Other lock services, from the system's packages: started on free loopback ports and in directories of their own, and stopped by
//! their process ids.

pub(super) mod etcd;
pub(super) mod etcd_client;
mod health;
mod jute;
mod proto;
pub(super) mod redis;
pub(super) mod redlock;
mod resp;
#[cfg(test)]
mod tests;
pub(super) mod zookeeper;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

pub(super) use health::until_healthy;

/// How long a service may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(40);

/// The pause between two attempts to reach a service that starts.
const ATTEMPT_EVERY: Duration = Duration::from_millis(10);

/// One process of a service. Dropping it ends it.
pub(super) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a program whose output goes to a log in `directory`.
    pub(super) fn start(mut command: Command, directory: &Path, name: &str) -> anyhow::Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| format!("{}: cannot be written", log.display()))?;
        command.current_dir(directory).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Server { child, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns an error if the process has ended, with its exit status and the last line of its log.
    fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last = log.lines().last().unwrap_or("(its log is empty)");
            bail!("it has ended ({status}): {last}");
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Repeats `attempt` until a service answers. Returns an error if a server has ended, or the service takes too long.
pub(super) async fn until_ready<T, F>(
    servers: &mut [Server],
    mut attempt: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let start = Instant::now();
    loop {
        let within = tokio::time::timeout(Duration::from_secs(5), attempt()).await;
        let error = match within {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(late) => late.into(),
        };
        servers.iter_mut().try_for_each(Server::check)?;
        if start.elapsed() > READY_WITHIN {
            return Err(error.context(format!("no answer within {} seconds", READY_WITHIN.as_secs())));
        }
        tokio::time::sleep(ATTEMPT_EVERY).await;
    }
}

/// Returns the first line of what a program prints about its version.
fn version_of(program: &str, flag: &str) -> String {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}
