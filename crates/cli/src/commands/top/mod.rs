//! `meshlock top`: shows a running cluster on a terminal.
//!
//! ```text
//!  keys ─▶ model ◀─ a sample every interval (status, all members' locks, the selected lock's queue)
//!            │
//!            ▼ draw: a frame, on the terminal or as text
//! ```

mod draw;
mod model;
mod screen;

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use meshlock_wire::clients::{ToClient, ToNode};
use serde_json::{Value, json};

use super::queue;
use super::target::{self, ANSWER_WITHIN, Target, unexpected};
use super::voters;
use crate::output::{self, CommandOutcome, UsageError};
use crate::settings::duration::HumanDuration;
use meshlock_client::Connection;
use model::{Model, Sample};
use screen::Screen;

/// Width of a frame that is printed as text.
const TEXT_WIDTH: u16 = 100;

/// Shortest interval between two samples: each costs every member some work.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `meshlock top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: arrows or j and k select a lock, Enter shows its queue, / filters by name, s sorts by another column, ? shows help, q quits.
With --json it prints one document and exits, as with --once.")]
pub(crate) struct Arguments {
    /// Print one frame as text and exit
    #[arg(long)]
    once: bool,
    /// How often to update, such as 500ms or 2s
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: HumanDuration,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let interval = arguments.interval.duration();
    if interval < MIN_INTERVAL {
        return Err(
            UsageError::new(format!("--interval: give {} ms or more", MIN_INTERVAL.as_millis())).into()
        );
    }
    if !arguments.once && !arguments.target.json {
        // Before any thread starts that could receive the signals instead.
        screen::hold_signals()?;
    }
    let mut remote = arguments.target.connect("top")?;
    let mut model = Model::default();
    model.take(sample(&mut remote, &model)?, Instant::now());
    if arguments.target.json {
        output::json(out, &document(&model))?;
    } else if arguments.once {
        out.write_all(draw::as_text(&mut model, output::terminal_width().unwrap_or(TEXT_WIDTH)).as_bytes())?;
    } else {
        watch(arguments, remote, model)?;
    }
    Ok(CommandOutcome::Done)
}

/// Asks the node for everything that a frame shows.
fn sample(remote: &mut Connection, model: &Model) -> anyhow::Result<Sample> {
    let status = target::status(remote)?;
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Locks { tag })?;
    let ToClient::Locks { sites, .. } = answer else { return Err(unexpected(remote, &answer)) };
    let queue = match model.watched() {
        Some(lock) => Some((lock.clone(), queue::ask(remote, lock)?)),
        None => None,
    };
    Ok(Sample { status, sites, queue })
}

/// Shows frame after frame until the user quits.
fn watch(arguments: &Arguments, remote: Connection, mut model: Model) -> anyhow::Result<()> {
    let interval = arguments.interval.duration();
    let mut screen = Screen::open()?;
    let mut remote = Some(remote);
    let mut next = Instant::now() + interval;
    while !model.is_over() {
        screen.draw(|frame| draw::frame(&mut model, frame))?;
        if let Some(event) = screen.event(next.saturating_duration_since(Instant::now()))? {
            model.on_event(&event);
        }
        if Instant::now() >= next || model.wants_sample() {
            let sampled = match remote.take() {
                Some(remote) => Ok(remote),
                None => arguments.target.connect("top"),
            };
            let sampled = sampled.and_then(|mut remote| Ok((sample(&mut remote, &model)?, remote)));
            match sampled {
                Ok((sample, same)) => {
                    model.take(sample, Instant::now());
                    remote = Some(same);
                }
                // The node may come back: the last sample stays on the screen, marked as old.
                Err(error) => model.complain(format!("{error:#}")),
            }
            next = Instant::now() + interval;
        }
    }
    Ok(())
}

fn document(model: &Model) -> Value {
    let member = |member: &model::MemberRow| {
        json!({
            "site": member.site, "leader": member.leads, "standing": member.standing,
            "votes": member.role.map(voters::Role::label),
            "lease_left_ms": member.lease_left.map(|left| left.micros() / 1000),
            "clients": member.sessions, "granted": member.granted, "answered": member.answered,
        })
    };
    let lock = |lock: &model::LockRow| {
        json!({
            "lock": lock.lock, "holders": lock.holders, "waiters": lock.waiters, "site": lock.site, "who": lock.who,
            "fence": lock.fence.map(|fence| fence.to_string()), "held_ms": lock.held.map(|held| held.micros() / 1000),
            "waited_ms": lock.waited.micros() / 1000,
        })
    };
    json!({
        "epoch": model.epoch(),
        "voters": model.status().and_then(|status| status.voters.as_ref()).map(voters::document),
        "members": model.members().iter().map(member).collect::<Vec<_>>(),
        "locks": model.locks().iter().map(lock).collect::<Vec<_>>(),
        "locks_in_all": model.locks_in_all(),
    })
}
