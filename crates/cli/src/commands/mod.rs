//! The subcommands, one module each: its arguments, what it does, and what it prints.

pub(crate) mod access;
pub(crate) mod algorithms;
pub(crate) mod backup;
pub(crate) mod break_lock;
pub(crate) mod ca;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod complete;
pub(crate) mod deadlocks;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod dst;
pub(crate) mod errata;
pub(crate) mod lab;
pub(crate) mod locks;
pub(crate) mod node;
pub(crate) mod prove;
pub(crate) mod queue;
pub(crate) mod quorum;
pub(crate) mod recover;
pub(crate) mod reproduce;
pub(crate) mod restore;
pub(crate) mod rules;
mod rules_document;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod site;
pub(crate) mod status;
pub(crate) mod target;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod up;
pub(crate) mod voters;

pub(crate) use status::standing;

#[cfg(test)]
mod tests {
    /// Fixed phrases of the output that `docs/tutorial.md` shows, by the source that prints them.
    const PHRASES: &[(&str, &[&str])] = &[
        (include_str!("break_lock.rs"), &[" was taken from "]),
        (
            include_str!("ca.rs"),
            &[
                "Created the cluster's certificate authority, valid for ",
                "  its key: keep it here; whoever has it can act as any site",
                "Next, for every site: meshlock ca issue SITE",
                "  the authority's certificate",
                "  its key, which must stay secret",
                ", then remove it here.",
            ],
        ),
        (include_str!("node.rs"), &[": the configuration is valid"]),
        (include_str!("node/daemon.rs"), &[" is ready: view ", "; clients: "]),
        (include_str!("run/holding.rs"), &["the lock is lost (", "); ending CMD"]),
        (
            include_str!("run/waiting.rs"),
            &["waiting for '", "did not get the lock '", "someone else has the lock '"],
        ),
        (
            include_str!("status.rs"),
            &["is a member of the cluster", "Its lease ends in ", " unless it is renewed."],
        ),
        (
            include_str!("up.rs"),
            &[
                " sites are ready. Their logs and all other files are in ",
                "Try, in other terminals:",
                "Ctrl-C ends all sites.",
            ],
        ),
    ];

    #[test]
    fn the_tutorial_shows_what_the_commands_print() {
        let tutorial = include_str!("../../../../docs/tutorial.md");
        for (source, phrases) in PHRASES {
            for phrase in *phrases {
                assert!(source.contains(phrase), "no longer printed, so record the tutorial again: {phrase}");
                assert!(tutorial.contains(phrase), "docs/tutorial.md does not show: {phrase}");
            }
        }
    }
}
