//! Adds 1 to the number in a file.

use std::fs;
use std::path::Path;

use meshlock::Client;

use super::watch::watch;
use super::{LostInTurn, Turn};

pub(crate) async fn turn(client: &Client, dir: &Path) -> Turn {
    let guard = client.lock("examples/counter").await?;
    let _watch = watch(&guard);
    let (file, new) = (dir.join("counter"), dir.join("counter.new"));
    let number: u64 = fs::read_to_string(&file)?.trim().parse()?;
    fs::write(&new, format!("{}\n", number + 1))?;
    // Before the step that cannot be undone: is the lock still held?
    if guard.is_lost() {
        return Err(LostInTurn.into());
    }
    fs::rename(&new, &file)?;
    println!("done counter");
    Ok(())
}
