//! `meshlock quorum check`: shows which properties a family of sets has, and which sets violate the others.

use std::io::Write;

use clap::{Args, ValueEnum};
use meshlock_protocol::quorum::check::{Property, QuorumVerdict, QuorumViolation};
use serde::Serialize;
use serde_json::json;

use super::source::{FamilySource, QuorumFamily};
use super::{Printing, panels, write_picture};
use crate::output::{self, CommandOutcome};

/// Arguments of `meshlock quorum check`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(flatten)]
    source: FamilySource,
    /// The properties that must hold, separated by commas [default: intersection, which safety needs]
    #[arg(long, value_enum, value_delimiter = ',', global = true)]
    require: Vec<Requirement>,
    /// Require a K-coterie: quorums for K entries at once
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..), global = true)]
    k: Option<u16>,
    #[command(flatten)]
    printing: Printing,
}

const AFTER_HELP: &str = "\
All properties are shown; the exit code is 0 if the required ones hold, and 1 if not.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Requirement {
    /// Every two sets intersect
    Intersection,
    /// No set contains another
    Minimality,
    /// Intersection and minimality
    Coterie,
    /// The sets of every two sites intersect
    M1,
    /// Each site is in its own set
    M2,
    /// All sets have the same size
    M3,
    /// All sites are in the same number of sets
    M4,
    /// M1 to M4
    Maekawa,
}

const MAEKAWA: [Property; 4] = [Property::M1, Property::M2, Property::M3, Property::M4];

impl Requirement {
    fn properties(self) -> &'static [Property] {
        match self {
            Requirement::Intersection => &[Property::Intersection],
            Requirement::Minimality => &[Property::Minimality],
            Requirement::Coterie => &[Property::Intersection, Property::Minimality],
            Requirement::M1 => &[Property::M1],
            Requirement::M2 => &[Property::M2],
            Requirement::M3 => &[Property::M3],
            Requirement::M4 => &[Property::M4],
            Requirement::Maekawa => &MAEKAWA,
        }
    }
}

/// A property of the family, and whether it holds.
struct PropertyRow {
    property: Property,
    required: bool,
    verdict: QuorumVerdict,
}

/// A row as JSON.
#[derive(Serialize)]
struct JsonRow {
    property: String,
    about: String,
    required: bool,
    /// `None` if the search was given up.
    holds: Option<bool>,
    why_not: Option<String>,
    offending_sets: Vec<usize>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let family = arguments.source.family()?;
    let rows = rows(arguments, &family);
    if let Some(path) = &arguments.printing.svg {
        write_picture(path, &panels::draw(&family, &blamed(&rows)))?;
    }
    let good = rows.iter().filter(|row| row.required).all(|row| row.verdict == QuorumVerdict::Holds);
    let (sites, sets) = (family.system.sites(), family.system.quorums().len());
    if arguments.printing.json {
        let checks: Vec<JsonRow> = rows.iter().map(JsonRow::of).collect();
        let document =
            json!({ "family": family.title, "sites": sites, "sets": sets, "holds": good, "checks": checks });
        output::json(out, &document)?;
    } else {
        writeln!(out, "{}: {sites} sites, {sets} sets", family.title)?;
        let mut table = output::table(&["property", "required", "holds", ""]);
        for row in &rows {
            let required = if row.required { "yes" } else { "" };
            table.add_row([row.property.to_string(), required.to_owned(), row.holds().to_owned(), row.why()]);
        }
        writeln!(out, "{table}")?;
    }
    Ok(if good { CommandOutcome::Done } else { CommandOutcome::Refuted })
}

fn rows(arguments: &Arguments, family: &QuorumFamily) -> Vec<PropertyRow> {
    let mut required: Vec<Property> =
        arguments.require.iter().flat_map(|requirement| requirement.properties()).copied().collect();
    let k_coterie = arguments.k.map(|k| Property::KCoterie(usize::from(k)));
    required.extend(k_coterie);
    if required.is_empty() {
        required.push(Property::Intersection);
    }
    let shown = [Property::Intersection, Property::Minimality].into_iter().chain(MAEKAWA).chain(k_coterie);
    let row = |property: Property| PropertyRow {
        property,
        required: required.contains(&property),
        verdict: property.check(&family.system),
    };
    shown.map(row).collect()
}

/// Returns the sets that violate a required property.
fn blamed(rows: &[PropertyRow]) -> Vec<usize> {
    let violations = rows.iter().filter(|row| row.required).filter_map(PropertyRow::violation);
    violations.flat_map(QuorumViolation::sets).map(|set| set.index).collect()
}

impl PropertyRow {
    fn holds(&self) -> &'static str {
        match self.verdict {
            QuorumVerdict::Holds => "yes",
            QuorumVerdict::Fails(_) => "no",
            QuorumVerdict::Undecided => "?",
        }
    }

    fn violation(&self) -> Option<&QuorumViolation> {
        match &self.verdict {
            QuorumVerdict::Fails(violation) => Some(violation),
            QuorumVerdict::Holds | QuorumVerdict::Undecided => None,
        }
    }

    fn why(&self) -> String {
        match &self.verdict {
            QuorumVerdict::Holds => self.property.about(),
            QuorumVerdict::Fails(violation) => violation.to_string(),
            QuorumVerdict::Undecided => "too many sets to decide; no violation was found".to_owned(),
        }
    }
}

impl JsonRow {
    fn of(row: &PropertyRow) -> Self {
        let holds = match row.verdict {
            QuorumVerdict::Holds => Some(true),
            QuorumVerdict::Fails(_) => Some(false),
            QuorumVerdict::Undecided => None,
        };
        let offending = row.violation().map(QuorumViolation::sets).unwrap_or_default();
        JsonRow {
            property: row.property.to_string(),
            about: row.property.about(),
            required: row.required,
            holds,
            why_not: row.violation().map(QuorumViolation::to_string),
            offending_sets: offending.iter().map(|set| set.index).collect(),
        }
    }
}
