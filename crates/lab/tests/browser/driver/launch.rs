//! The programs of each browser: what is started, on ports and displays that the system picks, and ended with the test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use meshlock_testing::{BoundedChild, Lines, eventually_some, needs_program};
use serde_json::json;

use super::connection::Connection;

/// A browser by what it draws with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Chromium,
    Firefox,
    /// `WebKitGTK`, in the small browser that comes with it; its window is on a display in memory.
    WebKit,
}

/// What chromium is started with: no window, nothing of its own over the network, a fresh profile.
const CHROMIUM_FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// What Firefox is started with: any free port for its driver, nothing of its own over the network.
const FIREFOX_PREFERENCES: &str = r#"user_pref("marionette.port", 0);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.normandy.enabled", false);
user_pref("app.update.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,");
user_pref("ui.prefersReducedMotion", 1);
"#;

/// Where distributions keep the small browser of `WebKitGTK`.
const MINI_BROWSERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser",
    "/usr/lib/aarch64-linux-gnu/webkit2gtk-4.1/MiniBrowser",
    "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.0/MiniBrowser",
    "/usr/libexec/webkit2gtk-4.1/MiniBrowser",
];

impl Engine {
    /// Whether its programs are installed; if not, the test is skipped.
    pub(super) fn is_there(self) -> bool {
        let programs: &[&str] = match self {
            Engine::Chromium => &["chromium", "chromedriver"],
            Engine::Firefox => &["firefox-esr"],
            Engine::WebKit => &["WebKitWebDriver", "Xvfb"],
        };
        programs.iter().all(|program| needs_program(program))
    }
}

/// What was started for a browser, ended in this order, and its profile.
pub(super) struct Programs {
    running: Vec<Child>,
    profile: tempfile::TempDir,
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.running {
            child.end();
        }
    }
}

/// Starts a browser and begins a session.
pub(super) fn start(engine: Engine) -> Result<(Connection, Programs), String> {
    let profile = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut programs = Programs { running: Vec::new(), profile };
    let folder = programs.profile.path().to_owned();
    let connection = match engine {
        Engine::Chromium => chromium(&mut programs, &folder),
        Engine::Firefox => firefox(&mut programs, &folder),
        Engine::WebKit => web_kit(&mut programs, &folder),
    }?;
    Ok((connection, programs))
}

fn chromium(programs: &mut Programs, profile: &Path) -> Result<Connection, String> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = spawned(&mut command)?;
    let said = Lines::of(driver.stdout.take().expect("stdout is a pipe"));
    programs.running.push(driver);
    let port = said.find("chromedriver says its port", |line| {
        let (_, rest) = line.split_once("started successfully on port ")?;
        rest.trim_end_matches('.').parse().ok()
    });
    let folder = format!("--user-data-dir={}", profile.display());
    let flags: Vec<&str> = CHROMIUM_FLAGS.iter().copied().chain([folder.as_str()]).collect();
    Connection::web_driver(
        port.ok_or("chromedriver does not say its port")?,
        &json!({ "goog:chromeOptions": { "args": flags } }),
    )
}

fn firefox(programs: &mut Programs, profile: &Path) -> Result<Connection, String> {
    fs::write(profile.join("user.js"), FIREFOX_PREFERENCES).map_err(|error| error.to_string())?;
    let mut command = Command::new("firefox-esr");
    command
        .args(["--headless", "--marionette", "--no-remote", "--profile"])
        .arg(profile)
        .env("HOME", profile);
    programs.running.push(spawned(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?);
    let port = eventually_some("Firefox writes its port into its profile", || {
        fs::read_to_string(profile.join("MarionetteActivePort")).ok()?.trim().parse().ok()
    });
    Connection::marionette(port)
}

fn web_kit(programs: &mut Programs, profile: &Path) -> Result<Connection, String> {
    let mini = MINI_BROWSERS.iter().find(|path| Path::new(path).exists());
    let mini = mini.ok_or("MiniBrowser of WebKitGTK is in none of the usual places")?;
    let mut command = Command::new("Xvfb");
    command.args(["-displayfd", "1", "-screen", "0", "1400x1000x24", "-nolisten", "tcp"]);
    let mut screen = spawned(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let said = BufReader::new(screen.stdout.take().expect("stdout is a pipe"));
    programs.running.push(screen);
    let display = said.lines().next().and_then(Result::ok).ok_or("Xvfb does not say its display")?;
    let mut command = Command::new("WebKitWebDriver");
    command.arg("--port=0").env("DISPLAY", format!(":{display}")).env("HOME", profile);
    command.env("WEBKIT_DISABLE_COMPOSITING_MODE", "1").env("NO_AT_BRIDGE", "1").env("GDK_BACKEND", "x11");
    let driver = spawned(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
    let process = driver.id();
    // The display is ended after the browser that draws on it.
    programs.running.insert(0, driver);
    let port = eventually_some("WebKitWebDriver listens", || listening_port(process));
    let options = json!({ "binary": mini, "args": ["--automation"] });
    Connection::web_driver(port, &json!({ "webkitgtk:browserOptions": options }))
}

fn spawned(command: &mut Command) -> Result<Child, String> {
    command.spawn().map_err(|error| format!("{} cannot be started: {error}", command.get_program().display()))
}

/// The TCP port on which a process listens, as the kernel says it: `WebKitWebDriver` does not.
fn listening_port(process: u32) -> Option<u16> {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{process}/fd"))
        .ok()?
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (columns.get(1)?, columns.get(3)?, columns.get(9)?);
        let is_ours = *state == "0A" && sockets.iter().any(|socket| socket == inode);
        is_ours.then(|| u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok())?
    })
}
