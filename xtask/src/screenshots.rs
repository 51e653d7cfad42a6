//! Makes the pictures of the lab in the documents, from the page itself.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};

/// The views to draw: name, address, width, height, and whether in dark colours.
const VIEWS: &[(&str, &str, u32, u32, bool)] = &[
    ("run", "#/run?algo=maekawa&n=5&seed=2&until=120&at=34&site=1", 1280, 800, false),
    ("figure", "#/gallery/figure/chapter-9-17?at=11", 1280, 800, false),
    ("erratum", "#/gallery/erratum/maekawa-chapter-deadlock?at=7", 1280, 800, true),
    ("gallery", "#/gallery", 1280, 800, false),
    (
        "compare",
        "#/compare?algos=lamport,maekawa,suzuki-kasami,raymond,central&n=9&rates=0.01,0.03,0.1,0.3&entries=1000",
        1280,
        820,
        false,
    ),
    ("quorum", "#/quorum?build=plane&order=3", 1280, 800, false),
    ("phone", "#/run?algo=raymond&n=5&until=60&at=24", 390, 844, true),
];

/// A process of `meshlock`, killed when this value is dropped.
struct ChildProcess(Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The commands that run on a local cluster for its picture: site, time in seconds, lock.
const WORK: &[(u32, &str, &str)] = &[
    (2, "60", "backup"),
    (3, "60", "backup"),
    (1, "0.05", "jobs"),
    (2, "0.05", "jobs"),
    (3, "0.05", "jobs"),
    (1, "0.05", "jobs"),
];

/// Draws a running cluster: starts it, attaches the lab, and runs commands under locks.
fn draw_live(root: &Path, picture: &Path) -> anyhow::Result<()> {
    let dir = std::env::temp_dir().join(format!("meshlock-screenshots-up-{}", std::process::id()));
    let meshlock = || Command::new(root.join("target/debug/meshlock"));
    let mut up = ChildProcess(
        meshlock()
            .args(["up", "-n", "3", "--dir"])
            .arg(&dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?,
    );
    let said = BufReader::new(up.0.stdout.take().context("its output is a pipe")?).lines();
    ensure!(
        said.map_while(Result::ok).any(|line| line.starts_with("Ctrl-C")),
        "`meshlock up` did not start a cluster"
    );
    let mut lab = ChildProcess(
        meshlock()
            .args(["lab", "--no-open", "--state", "--attach"])
            .arg(&dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?,
    );
    let mut page = String::new();
    BufReader::new(lab.0.stdout.take().context("its output is a pipe")?).read_line(&mut page)?;
    let mut working = Vec::new();
    for (site, seconds, lock) in WORK {
        let socket = dir.join(format!("site-{site}.sock"));
        let mut run = meshlock();
        run.args(["run", lock, "--socket"]).arg(socket).args(["--", "sleep", seconds]);
        let mut run =
            ChildProcess(run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        if *lock == "jobs" {
            run.0.wait()?;
        }
        working.push(run);
    }
    let shot = shoot(page.trim(), picture, (1280, 800), false);
    drop(working);
    // `meshlock up` stops its sites when it is interrupted, not when it is killed.
    // The shell has a built-in `kill`; the program of that name is in a package that not every machine has.
    Command::new("sh").args(["-c", "kill -INT $0", &up.0.id().to_string()]).status()?;
    up.0.wait()?;
    let _ = fs::remove_dir_all(&dir);
    shot
}

/// Draws every view into `docs/lab`.
pub(crate) fn draw(root: &Path) -> anyhow::Result<()> {
    let status =
        Command::new(env!("CARGO")).current_dir(root).args(["build", "-p", "meshlock-cli"]).status()?;
    ensure!(status.success(), "`cargo build -p meshlock-cli` failed");
    let mut command = Command::new(root.join("target/debug/meshlock"));
    command.args(["lab", "--no-open"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut lab = ChildProcess(command.spawn().context("cannot start meshlock lab")?);
    let mut page = String::new();
    BufReader::new(lab.0.stdout.take().context("its output is a pipe")?).read_line(&mut page)?;
    let folder = root.join("docs/lab");
    fs::create_dir_all(&folder)?;
    for (name, address, width, height, dark) in VIEWS {
        let picture = folder.join(format!("{name}.png"));
        shoot(&format!("{}{address}", page.trim()), &picture, (*width, *height), *dark)
            .with_context(|| format!("view {name}"))?;
        eprintln!("xtask: drew {}", picture.display());
    }
    draw_live(root, &folder.join("live.png")).context("view live")
}

fn shoot(address: &str, picture: &Path, (width, height): (u32, u32), dark: bool) -> anyhow::Result<()> {
    let profile = std::env::temp_dir().join(format!("meshlock-screenshots-{}", std::process::id()));
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        // Virtual time: the timers of the page run out at once, and the picture waits for its requests.
        .arg("--virtual-time-budget=20000")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", picture.display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command.arg(address).output().context("cannot start chromium; install it")?;
    let _ = fs::remove_dir_all(&profile);
    if !output.status.success() || !picture.exists() {
        bail!("chromium did not write the picture: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
