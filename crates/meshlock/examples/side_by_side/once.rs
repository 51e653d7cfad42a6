//! Does a job that many programs want done, and of which one does it.

use std::fs;
use std::path::Path;

use meshlock::Client;

use super::watch::watch;
use super::{LostInTurn, Turn};

pub(crate) async fn turn(client: &Client, dir: &Path, job: u32) -> Turn {
    let guard = client.lock("examples/once").await?;
    let _watch = watch(&guard);
    let marker = dir.join(format!("job-{job}"));
    if marker.exists() {
        return Ok(()); // somebody has done it
    }
    if guard.is_lost() {
        return Err(LostInTurn.into());
    }
    println!("done once {job}"); // the job
    fs::write(marker, "")?;
    Ok(())
}
