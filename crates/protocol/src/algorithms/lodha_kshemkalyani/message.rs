//! What the sites of Lodha and Kshemkalyani's algorithm say to each other.

use std::fmt;

use crate::view::listed;
use crate::{Clock, Family, Numbers, SiteId, SiteSet, Timestamp};

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to all others. To a receiver that asked before this came it is the answer as
    /// well: I shall not enter before you unless I asked first, and then you will hear from me or from someone after
    /// me. It also tells that the sender's request before this one is finished.
    Request {
        /// The sequence number; with the sender it is the request's id, smaller first.
        clock: Clock,
        /// With `combined-exit`: the receiver's last request that the sender has seen and answered. The answer may
        /// still be on its way through others; this is as good.
        answers: Option<Clock>,
    },
    /// From a site that wants nothing, or that has just left and had deferred the request: I do not stand in the way,
    /// and nobody does any more whose request is not later than the one that I executed last.
    Reply {
        /// The sequence number of the request that is answered.
        to: Clock,
        /// The sequence number of the sender's last request that was satisfied, if it has had one.
        executed: Option<Clock>,
        /// With `sequence-on-all`: the highest sequence number that the sender has seen.
        highest: Option<Clock>,
    },
    /// From a site that leaves, to the next one of its queue: nobody stands in the way any more whose request is not
    /// later than the one that I have just executed.
    Flush {
        /// The sequence number of that request.
        executed: Clock,
        /// With `sequence-on-all`: the highest sequence number that the sender has seen.
        highest: Option<Clock>,
    },
    /// With `combined-exit`, from a site that leaves, to the first of those whom it would have to tell something: all
    /// of it. The receiver passes on what is for the others when it leaves, or at once if it would keep an earlier one
    /// waiting.
    Handover {
        /// How many the sender has sent, this one included: a duplicate has a number that came before.
        number: u64,
        /// Nobody stands in the way any more whose request is not later than this one.
        finished: Timestamp,
        /// With `sequence-on-all`: the highest sequence number that the sender has seen.
        highest: Option<Clock>,
        /// For whom it is, the receiver first, sorted by their requests.
        owed: Vec<Owed>,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock, answers },
    1 => Reply { to, executed, highest },
    2 => Flush { executed, highest },
    3 => Handover { number, finished, highest, owed },
} }

/// What someone who waits is to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Owed {
    /// The request that waits.
    pub request: Timestamp,
    /// Who has answered it by this message.
    pub answered: SiteSet,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |what: &str, clock: &Option<Clock>| {
            clock.map_or(String::new(), |clock| format!(", {what} {}", clock.value()))
        };
        match self {
            Message::Request { clock, answers } => {
                write!(f, "REQUEST(SN {}{})", clock.value(), known("answers SN", answers))
            }
            Message::Reply { to, executed, highest } => {
                let (executed, highest) = (known("executed SN", executed), known("highest", highest));
                write!(f, "REPLY(to SN {}{executed}{highest})", to.value())
            }
            Message::Flush { executed, highest } => {
                write!(f, "FLUSH(executed SN {}{})", executed.value(), known("highest", highest))
            }
            Message::Handover { finished, owed, .. } => {
                let requests = listed(owed.iter().map(|owed| owed.request));
                write!(f, "HANDOVER(executed {finished}, for {requests})")
            }
        }
    }
}

/// Visits a clock that is only remembered; one before all others says as much as none.
pub(super) fn remembered(clock: &mut Option<Clock>, numbers: &mut Numbers<'_>) {
    if let Some(clock) = clock {
        numbers.remembered_clock(clock);
    }
    *clock = clock.filter(|&clock| clock > Clock::ZERO);
}

/// Visits a finished request, which is only remembered; of one before all others the site does not matter either.
pub(super) fn remembered_request(request: &mut Timestamp, numbers: &mut Numbers<'_>) {
    numbers.remembered_clock(&mut request.clock);
    if request.clock == Clock::ZERO {
        request.site = SiteId::new(0);
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
            Message::Flush { .. } => "FLUSH",
            Message::Handover { .. } => "HANDOVER",
        }
    }

    fn numbers(&mut self, from: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { clock, answers } => {
                numbers.clock(clock);
                remembered(answers, numbers);
            }
            Message::Reply { to, executed, highest } => {
                numbers.clock(to);
                remembered(executed, numbers);
                if let Some(clock) = highest {
                    numbers.clock(clock);
                }
            }
            Message::Flush { executed, highest } => {
                numbers.clock(executed);
                if let Some(clock) = highest {
                    numbers.clock(clock);
                }
            }
            Message::Handover { number, finished, highest, owed } => {
                numbers.number(Family::Site(from), number);
                remembered_request(finished, numbers);
                if let Some(clock) = highest {
                    numbers.clock(clock);
                }
                for owed in owed {
                    numbers.timestamp(&mut owed.request);
                }
            }
        }
    }

    fn words(&self) -> usize {
        let optional = |number: &Option<Clock>| usize::from(number.is_some());
        match self {
            Message::Request { answers, .. } => 4 + optional(answers),
            Message::Reply { highest, .. } => 5 + optional(highest),
            Message::Flush { highest, .. } => 4 + optional(highest),
            Message::Handover { highest, owed, .. } => {
                let lists: usize = owed.iter().map(|owed| 2 + owed.answered.len()).sum();
                6 + optional(highest) + lists
            }
        }
    }
}

/// Puts `request` into the list, in its place, as answered by all of `answered`. A later request of a site says that
/// its earlier one is over, so that the list never has more than one of each.
pub(super) fn owe(list: &mut Vec<Owed>, request: Timestamp, answered: &SiteSet) {
    if list.iter().any(|owed| owed.request.site == request.site && owed.request > request) {
        return;
    }
    list.retain(|owed| owed.request.site != request.site || owed.request == request);
    match list.binary_search_by_key(&request, |owed| owed.request) {
        Ok(at) => list[at].answered.union_with(answered),
        Err(at) => list.insert(at, Owed { request, answered: answered.clone() }),
    }
}
