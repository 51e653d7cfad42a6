//! One permutation of the sites, followed through the steps of the sites.

use meshlock_protocol::{SiteId, Timestamp};
use smallvec::SmallVec;

use super::Permutation;
use super::probe::{Asymmetry, Difference};
use crate::table::{Input, StepOutcome, Table};

/// The image of what has none yet.
const UNKNOWN: u32 = u32::MAX;

/// A step of one site: its local state and the input.
pub(crate) type LocalInput = (u32, Input);

/// A permutation of the sites, and what local states and packets stand for when the sites are exchanged by it.
pub(crate) struct Renaming {
    pub(crate) permutation: Permutation,
    /// By local state and by packet: its image.
    locals: Vec<u32>,
    packets: Vec<u32>,
}

/// The image of `of`, unless it has none yet.
fn image(images: &[u32], of: u32) -> Option<u32> {
    images.get(of as usize).copied().filter(|&image| image != UNKNOWN)
}

/// Makes `to` the image of `of`. Returns false if it has another one.
fn bind(images: &mut Vec<u32>, of: u32, to: u32) -> bool {
    if of as usize >= images.len() {
        images.resize(of as usize + 1, UNKNOWN);
    }
    let image = &mut images[of as usize];
    if *image == UNKNOWN {
        *image = to;
    }
    *image == to
}

impl Renaming {
    pub(crate) fn new(permutation: Permutation) -> Self {
        Renaming { permutation, locals: Vec::new(), packets: Vec::new() }
    }

    /// Lets the first state of each site stand for that of the site in whose place it comes.
    pub(crate) fn start(&mut self, table: &Table) -> Result<(), Asymmetry> {
        let first = table.first_locals();
        for site in SiteId::all(first.len()) {
            let (local, image) = (first[site.index()], first[self.permutation.of(site).index()]);
            if !self.agrees(table, local, image) {
                return Err(Asymmetry::at_start(&self.permutation, site));
            }
            bind(&mut self.locals, local, image);
        }
        Ok(())
    }

    /// The image of a local state that was followed.
    pub(crate) fn local(&self, local: u32) -> u32 {
        self.locals[local as usize]
    }

    /// The image of a packet that was followed.
    pub(crate) fn packet(&self, packet: u32) -> u32 {
        self.packets[packet as usize]
    }

    /// Whether the local state has an image, and the packet, if the input is one.
    pub(super) fn knows(&self, (local, input): LocalInput) -> bool {
        let knows_input =
            if let Input::Packet(packet) = input { image(&self.packets, packet).is_some() } else { true };
        knows_input && image(&self.locals, local).is_some()
    }

    /// Takes a step and the one that corresponds to it, and compares them. Returns the other step.
    pub(crate) fn follow(&mut self, table: &mut Table, step: LocalInput) -> Result<LocalInput, Asymmetry> {
        let input = match step.1 {
            Input::Packet(packet) => Input::Packet(self.packet(packet)),
            Input::Request(_) | Input::Release | Input::Return(_) | Input::Wake => step.1,
            Input::ChangeMode(_)
            | Input::Fail
            | Input::Restart
            | Input::PeerFailed(_)
            | Input::PeerRecovered(_) => {
                unreachable!("runs with failures or modes are not explored up to symmetry")
            }
        };
        let image = (self.local(step.0), input);
        table.learn_step(step.0, step.1);
        table.learn_step(image.0, image.1);
        let compared = self.compare(table, step, image);
        compared
            .map_err(|difference| Asymmetry::in_step(table, &self.permutation, step, image, difference))?;
        Ok(image)
    }

    /// Compares all results of a step with those of the other, and lets those that agree stand for each other.
    fn compare(&mut self, table: &Table, step: LocalInput, image: LocalInput) -> Result<(), Difference> {
        let result = |(local, input): LocalInput, branch| {
            let known = table.step(local, input, branch).expect("it was learnt");
            (known.local, known.outcome)
        };
        let branches =
            |(local, input): LocalInput| table.step(local, input, 0).expect("it was learnt").branches;
        if branches(step) != branches(image) {
            return Err(Difference::Choices);
        }
        let mut open: Vec<u32> = (0..branches(step)).collect();
        let mut images = open.clone();
        while !open.is_empty() {
            // Which choice corresponds to which is known only where one result agrees and no other does.
            let (mut found, mut difference) = (None, Difference::Choices);
            for (at, &branch) in open.iter().enumerate() {
                let fits =
                    images.iter().map(|&other| self.agree(table, result(step, branch), result(image, other)));
                let fits: SmallVec<[_; 4]> = fits.collect();
                if let [Err(differs)] = fits[..] {
                    difference = differs;
                }
                let mut fitting = (0..fits.len()).filter(|&at| fits[at].is_ok());
                if let (Some(only), None) = (fitting.next(), fitting.next()) {
                    found = Some((at, only));
                    break;
                }
            }
            let (at, other) = found.ok_or(difference)?;
            let (one, two) = (result(step, open.remove(at)), result(image, images.remove(other)));
            if !self.join(table, one, two) {
                return Err(Difference::StandsForTwo);
            }
        }
        Ok(())
    }

    /// Lets what two results consist of stand for each other. Returns false if something stands for two.
    fn join(
        &mut self,
        table: &Table,
        (local, one): (u32, Option<&StepOutcome>),
        (other_local, other): (u32, Option<&StepOutcome>),
    ) -> bool {
        let pairs = self.pairs(table, one, other).into_iter().flatten();
        let is_free = bind(&mut self.locals, local, other_local);
        pairs.fold(is_free, |free, (packet, image)| free & bind(&mut self.packets, packet, image))
    }

    /// Whether two results agree in all that can be noticed and in all that is known of what stands for what.
    fn agree(
        &self,
        table: &Table,
        (local, one): (u32, Option<&StepOutcome>),
        (other_local, other): (u32, Option<&StepOutcome>),
    ) -> Result<(), Difference> {
        let slot =
            |outcome: Option<&StepOutcome>| outcome.and_then(|outcome| outcome.entry).map(|(slot, _)| slot);
        let wrong = |outcome: Option<&StepOutcome>| {
            outcome.is_some_and(|outcome| outcome.wrong.is_some() || outcome.refused.is_some())
        };
        if slot(one) != slot(other) {
            return Err(Difference::Entry);
        }
        let pairs = self.pairs(table, one, other).ok_or(Difference::Messages)?;
        if wrong(one) != wrong(other) || !self.agrees(table, local, other_local) {
            return Err(Difference::State);
        }
        let is_free = |images: &[u32], of: u32, to: u32| image(images, of).is_none_or(|image| image == to);
        let are_free = pairs.iter().all(|&(packet, image)| is_free(&self.packets, packet, image));
        if !are_free || !is_free(&self.locals, local, other_local) {
            return Err(Difference::StandsForTwo);
        }
        Ok(())
    }

    /// The packets of one step with those of the other, in the order of each channel, unless they do not correspond.
    fn pairs(
        &self,
        table: &Table,
        one: Option<&StepOutcome>,
        other: Option<&StepOutcome>,
    ) -> Option<Vec<(u32, u32)>> {
        let sends = |outcome: Option<&StepOutcome>| {
            let (sends, entry) =
                outcome.map_or((&[][..], None), |outcome| (&outcome.sends[..], outcome.entry));
            // What is sent before an entry does not tell of it.
            let before = entry.map_or(0, |(_, before)| before as usize);
            let (early, late) = sends.split_at(before);
            [early.to_vec(), late.to_vec()]
        };
        let mut pairs = Vec::new();
        for (some, others) in sends(one).into_iter().zip(sends(other)) {
            if some.len() != others.len() {
                return None;
            }
            let to = |packet: u32| table.label(packet).to;
            for site in SiteId::all(table.first_locals().len()) {
                let mine = some.iter().filter(|&&packet| to(packet) == site);
                let theirs = others.iter().filter(|&&packet| to(packet) == self.permutation.of(site));
                if mine.clone().count() != theirs.clone().count() {
                    return None;
                }
                pairs.extend(mine.copied().zip(theirs.copied()));
            }
        }
        let carry_alike = |&(one, other): &(u32, u32)| table.label(one).tokens == table.label(other).tokens;
        pairs.iter().all(carry_alike).then_some(pairs)
    }

    /// Whether nobody can tell two local states from each other, but for the site.
    fn agrees(&self, table: &Table, local: u32, other: u32) -> bool {
        let facts = [table.facts(local), table.facts(other)];
        let renamed = |stamp: Timestamp| Timestamp { site: self.permutation.of(stamp.site), ..stamp };
        let [one, two] = facts.map(|facts| {
            let flags = [facts.up, facts.may_request, facts.has_timer, facts.is_quiet, facts.wrong.is_some()];
            (facts.phase, facts.mode, facts.tokens, flags)
        });
        one == two
            && facts[0].timestamp.map(renamed) == facts[1].timestamp
            && table.is_within(&[local]) == table.is_within(&[other])
    }
}
