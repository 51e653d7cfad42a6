//! The settings of what a site does by itself: whom it serves first, how it waits, and who votes.

use std::time::Duration;

use super::NodeBuilder;
use crate::config::Voters;

impl NodeBuilder {
    /// Sets how often in a row a lock is handed on among clients of this site while clients of other sites wait for it. With 16, the default,
    /// up to 17 clients of this site hold it one after the other.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().local_turns(1); // at most two holders in a row at this site
    /// ```
    pub fn local_turns(mut self, turns: u32) -> Self {
        self.local_turns = Some(turns);
        self
    }

    /// Sets how long a caller that does not want to wait waits for the other sites to say who holds the lock. By default this follows the
    /// round-trip times to them, between 1 s and 5 s. If they have not answered then, the lock is not available
    /// ([`AcquireError::Unavailable`](crate::AcquireError::Unavailable)).
    ///
    /// ```
    /// let builder = meshlock::Node::builder().try_within(std::time::Duration::from_secs(1));
    /// ```
    pub fn try_within(mut self, limit: Duration) -> Self {
        self.try_within = Some(limit);
        self
    }

    /// Sets the maximum number of locks that the site keeps, in use or idle. Default: a million.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().max_locks(10_000);
    /// ```
    pub fn max_locks(mut self, locks: usize) -> Self {
        self.max_locks = Some(locks);
        self
    }

    /// Sets whether the site's thread stays awake for 50 µs after each input, once two have come within 500 µs, and lets all other threads run
    /// first meanwhile. Where a lock is handed over all the time and cores are idle, hand-overs take less time; where clients keep all cores
    /// busy, it slows them down. Default: it does not; measure it.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().busy_poll(true);
    /// ```
    pub fn busy_poll(mut self, polls: bool) -> Self {
        self.busy_poll = Some(polls);
        self
    }

    /// Sets who changes the voters; the same at all sites. Default: the leader, [`Voters::Auto`].
    ///
    /// ```
    /// let builder = meshlock::Node::builder().voters(meshlock::config::Voters::Fixed);
    /// ```
    pub fn voters(mut self, voters: Voters) -> Self {
        self.voters = voters;
        self
    }

    /// Sets for how long a voter must be gone before a member takes its place, with [`Voters::Auto`]. Default: 10 minutes.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().replace_voter_after(std::time::Duration::from_secs(3600));
    /// ```
    pub fn replace_voter_after(mut self, away: Duration) -> Self {
        self.replace_voter_after = Some(away);
        self
    }

    /// Sets for how long a site must have been a member before it becomes a voter without being asked, and a leader must have led before
    /// it changes the voters, with [`Voters::Auto`]. Default: 30 seconds.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().promote_voter_after(std::time::Duration::from_secs(60));
    /// ```
    pub fn promote_voter_after(mut self, member_for: Duration) -> Self {
        self.promote_voter_after = Some(member_for);
        self
    }
}
