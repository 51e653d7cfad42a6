//! [`AnySite`] as an [`Algorithm`]: each question goes to the site inside.

use super::super::of_site;
use super::{AnyMessage, AnyPlan, AnySite};
use crate::registry::info::{BypassClaim, Span};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Holders, Info, Mode, Numbers, Phase, PlanError, SiteId, SiteSet, Timestamp, View,
};

impl Algorithm for AnySite {
    type Plan = AnyPlan;

    fn info(&self) -> &'static Info {
        of_site!(self, site => site.info())
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<AnyPlan, PlanError> {
        AnySite::plan_named(cluster, values)
    }

    fn start(plan: &AnyPlan, me: SiteId, holders: &Holders) -> Self {
        AnySite::start_planned(plan, me, holders)
    }

    fn phase(&self) -> Phase {
        of_site!(self, site => site.phase())
    }

    fn mode(&self) -> Mode {
        of_site!(self, site => site.mode())
    }

    fn is_upgrading(&self) -> bool {
        of_site!(self, site => site.is_upgrading())
    }

    fn may_share(&self) -> bool {
        of_site!(self, site => site.may_share())
    }

    fn is_quiet(&self) -> bool {
        of_site!(self, site => site.is_quiet())
    }

    fn timestamp(&self) -> Option<Timestamp> {
        of_site!(self, site => site.timestamp())
    }

    fn quorum(&self) -> Option<usize> {
        of_site!(self, site => site.quorum())
    }

    fn cost_span(&self) -> Option<Span> {
        of_site!(self, site => site.cost_span())
    }

    fn bypass_claim(&self) -> Option<BypassClaim> {
        of_site!(self, site => site.bypass_claim())
    }

    fn survives(&self, down: &SiteSet) -> bool {
        of_site!(self, site => site.survives(down))
    }

    fn tokens(&self) -> usize {
        of_site!(self, site => site.tokens())
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        of_site!(self, site => site.numbers(numbers));
    }

    fn view(&self) -> View {
        of_site!(self, site => site.view())
    }

    fn is_within_bounds(&self) -> bool {
        of_site!(self, site => site.is_within_bounds())
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        of_site!(self, site => site.check_invariants())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, AnyMessage>]) -> Result<(), &'static str> {
        AnySite::check_unwrapped(sites, in_flight)
    }
}
