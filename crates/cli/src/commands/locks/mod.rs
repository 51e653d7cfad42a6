//! `meshlock locks`: lists all locks in use, and prints what happens to them.
//!
//! The node is asked page by page, and only as many locks are kept as are shown: a cluster may have more than fit on a screen, or into this
//! program's memory.

mod print;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::io::Write;

use clap::{Args, ValueEnum};
use meshlock_client::Connection;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{LockPage, LockSummary, MAX_PAGE};
use meshlock_wire::clients::{HAS_LISTINGS, ToClient, ToNode};

use super::target::{ANSWER_WITHIN, Target, unexpected};
use crate::cluster_watch;
use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock locks`.
#[derive(Debug, Args)]
#[command(after_help = "\
Every member is asked; those that do not answer, or whose program is too old, are named. You see the locks that you may watch.
With --watch it then prints a line for each change, until Ctrl-C: acquired, released, lost (the site could not keep it), broken (by an
operator). If you read too slowly, or a site did not answer for long, a line says how many changes were missed at least.
With --json and --watch every line is a JSON object: first one with the locks, then one for each change.")]
pub(crate) struct Arguments {
    /// Which locks: a name, or the beginning of names followed by '*'
    #[arg(value_name = "PATTERN", default_value = "*", value_parser = cluster_watch::pattern)]
    pattern: String,
    /// Only locks that somebody waits for
    #[arg(long)]
    waiting: bool,
    /// Only locks that somebody holds
    #[arg(long)]
    held: bool,
    /// What comes first: names in order, those held for longest, those with the most waiters, or those waited for longest
    #[arg(long, value_name = "ORDER", default_value = "name")]
    sort: SortKey,
    /// At most so many locks; it says if there are more
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Go on and print what happens to these locks
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    target: Target,
}

/// The order of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortKey {
    Name,
    Held,
    Waiters,
    Waited,
}

/// The locks that are shown.
#[derive(Debug, Default)]
struct Listing {
    locks: Vec<LockSummary>,
    /// Number of locks that are meant and not shown, as far as that was found out.
    left_out: u64,
    /// Whether there may be more.
    is_cut: bool,
    /// Members that have not replied to some page.
    missing: Vec<SiteName>,
}

/// Which locks are shown, and in what order.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    waiting: bool,
    held: bool,
    sort: SortKey,
    most: usize,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Self {
        let Arguments { waiting, held, sort, limit, .. } = *arguments;
        Wanted { waiting, held, sort, most: limit as usize }
    }

    fn means(self, lock: &LockSummary) -> bool {
        (!self.waiting || lock.waiters > 0) && (!self.held || lock.holders_in_all > 0)
    }
}

impl Listing {
    /// Takes over a page. Returns whether the next one is needed.
    fn take(&mut self, page: LockPage, wanted: Wanted) -> bool {
        for site in page.missing {
            if !self.missing.contains(&site) {
                self.missing.push(site);
            }
        }
        self.locks.extend(page.locks.into_iter().filter(|lock| wanted.means(lock)));
        match wanted.sort {
            // Pages come in this order.
            SortKey::Name => {}
            SortKey::Held => self.locks.sort_by_key(|lock| Reverse(lock.held())),
            SortKey::Waiters => self.locks.sort_by_key(|lock| Reverse(lock.waiters)),
            SortKey::Waited => self.locks.sort_by_key(|lock| Reverse((lock.waiters > 0, lock.waited))),
        }
        if self.locks.len() > wanted.most {
            self.left_out += (self.locks.len() - wanted.most) as u64;
            self.locks.truncate(wanted.most);
        }
        let is_full = wanted.sort == SortKey::Name && self.locks.len() == wanted.most;
        self.is_cut = page.next.is_some() && is_full;
        page.next.is_some() && !is_full
    }

    fn says_more(&self) -> bool {
        self.is_cut || self.left_out > 0
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let mut remote = arguments.target.connect("locks")?;
    check_version(&remote)?;
    let watch = if arguments.watch { Some(begin_to_watch(&mut remote, &arguments.pattern)?) } else { None };
    // Over another connection, because changes may come at any time over the first one.
    let listing = if watch.is_some() {
        list(&mut arguments.target.connect("locks")?, &arguments.pattern, Wanted::of(arguments))?
    } else {
        list(&mut remote, &arguments.pattern, Wanted::of(arguments))?
    };
    match (arguments.target.json, watch.is_some()) {
        (true, true) => print::line(out, &print::document(&listing))?,
        (true, false) => output::json(out, &print::document(&listing))?,
        (false, _) => print::table(&listing, out)?,
    }
    if let Some(tag) = watch {
        out.flush()?;
        follow(&mut remote, tag, arguments.target.json, out)?;
    }
    Ok(CommandOutcome::Done)
}

/// Refuses a node that knows no pages of locks.
pub(super) fn check_version(remote: &Connection) -> Result<(), UsageError> {
    if remote.version() >= HAS_LISTINGS {
        return Ok(());
    }
    Err(UsageError::new(format!(
        "the node of {} runs an older version, which cannot answer this; upgrade it, or use `meshlock top`",
        remote.site()
    )))
}

fn list(remote: &mut Connection, pattern: &str, wanted: Wanted) -> anyhow::Result<Listing> {
    let (mut listing, mut after) = (Listing::default(), None);
    loop {
        let page = ask(remote, pattern, after.take())?;
        after.clone_from(&page.next);
        if !listing.take(page, wanted) {
            return Ok(listing);
        }
    }
}

fn ask(remote: &mut Connection, pattern: &str, after: Option<LockName>) -> anyhow::Result<LockPage> {
    let (pattern, limit) = (pattern.to_owned(), MAX_PAGE);
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::LockPage { tag, pattern, after, limit })?;
    if let ToClient::LockPage { page, .. } = answer { Ok(*page) } else { Err(unexpected(remote, &answer)) }
}

/// Asks for changes, and waits until everything from then on is told. Returns the tag of the request.
fn begin_to_watch(remote: &mut Connection, pattern: &str) -> anyhow::Result<u64> {
    let mut asked = 0;
    let answer = remote.ask(ANSWER_WITHIN, |tag| {
        asked = tag;
        ToNode::Changes { tag, pattern: pattern.to_owned() }
    })?;
    if let ToClient::Changes { .. } = answer { Ok(asked) } else { Err(unexpected(remote, &answer)) }
}

fn follow(remote: &mut Connection, tag: u64, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    loop {
        let Some(message) = remote.receive(None)? else { continue };
        if message.tag() != Some(tag) {
            continue;
        }
        let ToClient::Changes { changes, missed, .. } = message else {
            return Err(unexpected(remote, &message));
        };
        print::changes(&changes, missed, json, out)?;
        out.flush()?;
    }
}
