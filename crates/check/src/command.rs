//! The command line for an exploration.

use std::fmt::Write;

use meshlock_protocol::{Demand, Mode, Priority, Spec};

use crate::{Bounds, Entries, NetworkModel, Properties};

/// The command that explores `spec` within `bounds` again. The limits are left out: they only decide whether it finishes.
pub fn command(spec: &Spec, bounds: &Bounds) -> String {
    let mut line = format!("meshlock check {spec} --sites {}", bounds.cluster.sites);
    let mut add = |flag: &str, value: &dyn std::fmt::Display| {
        write!(line, " --{flag} {value}").expect("a string takes all that is written to it");
    };
    match bounds.entries {
        Entries::Each(entries) => add("entries", &entries),
        Entries::Endless => add("entries", &"endless"),
    }
    if let Some(window) = bounds.window {
        add("window", &window);
    }
    let network = bounds.network();
    add("network", &network.name());
    if bounds.cluster.permits > 1 {
        add("permits", &bounds.cluster.permits);
    }
    for (holder, mode) in bounds.holders.with_modes() {
        match mode {
            Mode::Exclusive => add("holder", &holder.index()),
            Mode::Shared | Mode::Upgradeable => add("holder", &format_args!("{}:{mode}", holder.index())),
        }
    }
    if bounds.demands != [Demand::PLAIN] {
        let (modes, priorities) = bounds.modes_and_priorities();
        for mode in &modes {
            add("mode", mode);
        }
        if priorities != [Priority::default()] {
            for priority in &priorities {
                add("priority", &priority.0);
            }
        }
    }
    if bounds.changes > 0 {
        add("changes", &bounds.changes);
    }
    let implied = u8::from(network == NetworkModel::Duplicating);
    for (flag, count, usual) in [
        ("duplicates", bounds.duplicates, implied),
        ("losses", bounds.losses, 0),
        ("crashes", bounds.crashes, 0),
    ] {
        if count != usual {
            add(flag, &count);
        }
    }
    let leaves_out = bounds.reduces || bounds.up_to_symmetry;
    let all = if leaves_out { Properties::all().kept_by_reduction() } else { Properties::all() };
    if bounds.properties != all {
        bounds.properties.iter().for_each(|property| add("property", &property.name()));
    }
    for (flag, on) in [
        ("recover", bounds.recoveries),
        ("news-overtake", bounds.news.overtake),
        ("news-late", bounds.news.late),
        ("news-first", bounds.news_first),
        ("return", bounds.returns),
        ("survivors", bounds.survivors),
        ("reduce", bounds.reduces),
        ("symmetry", bounds.up_to_symmetry),
    ] {
        if on {
            line.push_str(" --");
            line.push_str(flag);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_from_the_defaults_is_named() {
        let spec: Spec = "raymond-k".parse().expect("a registered name");
        let plain = Bounds::new(3, 2);
        assert_eq!(command(&spec, &plain), "meshlock check raymond-k --sites 3 --entries 2 --network fifo");
        let all = plain.with_permits(2).held_by(&[1, 2]).expect("two of three sites");
        let all = all.over(NetworkModel::Duplicating).with_losses(1).with_crashes(1).with_recoveries();
        assert_eq!(
            command(&spec, &all.with_returns().with_survivors()),
            "meshlock check raymond-k --sites 3 --entries 2 --network duplicating --permits 2 --holder 1 --holder 2 \
             --losses 1 --crashes 1 --recover --return --survivors"
        );
        let shared = Bounds::new(2, 1).shared_by(&[(0, Mode::Upgradeable)]).expect("a site of the run");
        let shared = shared.with_modes(&[Mode::Shared, Mode::Exclusive]).with_changes(2);
        assert_eq!(
            command(&spec, &shared),
            "meshlock check raymond-k --sites 2 --entries 1 --network fifo --holder 0:upgradeable --mode shared \
             --mode exclusive --changes 2"
        );
        let reduced = Bounds::new(4, 1).reduced();
        assert_eq!(
            command(&spec, &reduced),
            "meshlock check raymond-k --sites 4 --entries 1 --network fifo --reduce"
        );
    }
}
