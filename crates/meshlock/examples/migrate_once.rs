//! Many copies of a service start at once; one of them migrates the database, the others wait and find it done. The
//! database is a file here, whose first line is the version of its schema.
//!
//! ```sh
//! cargo run -p meshlock --example migrate_once
//! ```

use std::fs;
use std::path::Path;

use meshlock::{Cluster, Node};

const WANTED: u32 = 2;

/// Brings the file up to date if nobody has done so. Returns whether this copy did it.
async fn migrate(node: &Node, database: &Path) -> Result<bool, Box<dyn std::error::Error>> {
    let _guard = node.lock("migrate").await?;
    let text = fs::read_to_string(database)?;
    let (version, rows) = text.split_once('\n').ok_or("no version in the database")?;
    if version.trim().parse::<u32>()? >= WANTED {
        return Ok(false);
    }
    let migrated: Vec<String> = rows.lines().map(|row| format!("{row};active")).collect();
    // Written to a new file first and then renamed, so that the database is replaced completely or not at all.
    let new = database.with_extension("new");
    fs::write(&new, format!("{WANTED}\n{}\n", migrated.join("\n")))?;
    fs::rename(&new, database)?;
    Ok(true)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = std::env::temp_dir().join(format!("meshlock-example-{}.db", std::process::id()));
    fs::write(&database, "1\nann\nbob\n")?;
    let cluster = Cluster::local(3)?;
    let mut migrations = 0;
    for node in cluster.nodes() {
        migrations += u32::from(migrate(node, &database).await?);
    }
    let text = fs::read_to_string(&database)?;
    fs::remove_file(&database)?;
    assert_eq!((migrations, text.as_str()), (1, "2\nann;active\nbob;active\n"));
    eprintln!("three copies started, one migrated");
    Ok(())
}
