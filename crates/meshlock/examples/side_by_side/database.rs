//! Changes a row that remembers the largest fence, and refuses smaller ones. This asks the program sqlite3, to do without a driver; with
//! one the statement is the same.

use std::path::Path;
use std::process::Command;

use meshlock::Client;

use super::watch::watch;
use super::{LostInTurn, Turn};

pub(crate) async fn turn(client: &Client, dir: &Path) -> Turn {
    let guard = client.lock("examples/database").await?;
    let _watch = watch(&guard);
    let fence = guard.fence();
    let update = format!(
        "UPDATE account SET balance = balance + 1, fence = {fence} WHERE id = 1 AND fence <= {fence}"
    );
    let changed = sqlite(&dir.join("bank.db"), &format!("{update}; SELECT changes();"))?;
    if changed != "1" {
        return Err(LostInTurn.into()); // a later holder was here: the row is as it left it
    }
    println!("done database");
    Ok(())
}

fn sqlite(file: &Path, statements: &str) -> Turn<String> {
    let out = Command::new("sqlite3").args(["-cmd", ".timeout 10000"]).arg(file).arg(statements).output()?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into());
    }
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}
