//! The epoch with which a cluster begins, if this site makes its first view.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use meshlock_cluster::fence_floor::{self, Epoch, FloorError};
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::node::Config;
use meshlock_host::has_state;

use super::NodeBuilder;
use crate::error::StartError;

impl NodeBuilder {
    /// Makes the fences of a cluster that is founded with this site begin above this one; to be set at all sites with which it is
    /// founded. The wall clock gives another number, and the higher of the two counts: so fences rise although a cluster was lost with
    /// all its disks, if it had fewer views than one in four minutes. A site that has been in a cluster before goes on with what its disk
    /// says.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().fence_floor(127_543_348_822_017_000);
    /// ```
    pub fn fence_floor(mut self, fence: u64) -> Self {
        self.fence_floor = Some(fence);
        self
    }
}

/// Returns the lowest epoch whose fences are above a configured one.
pub(super) fn above(fence: Option<u64>) -> Result<Option<Epoch>, StartError> {
    let epoch = fence.map(fence_floor::above).transpose();
    epoch.map_err(|error| StartError::setting("fence_floor", error))
}

/// Returns the epoch with which this site begins the cluster, should it make the first view: the wall clock's or the configured one.
pub(super) fn first_epoch(config: &Config, data: Option<&Path>) -> Result<Epoch, StartError> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match fence_floor::by_clock(seconds) {
        Ok(epoch) => Ok(epoch.max(config.first_epoch)),
        Err(error) => {
            let founds = config.sites.iter().take(MAX_VOTERS).any(|site| *site == config.site);
            let is_new = !data.is_some_and(has_state);
            let is_said = config.first_epoch > Epoch::new(1).unwrap_or_default();
            if error == FloorError::ClockTooEarly && founds && is_new && !is_said {
                return Err(StartError::setting("fence_floor", error));
            }
            Ok(config.first_epoch)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new("a".parse().unwrap(), vec!["a".parse().unwrap()])
    }

    #[test]
    fn the_clock_and_the_configured_floor_are_compared_and_the_higher_counts() {
        let by_clock = first_epoch(&config(), None).unwrap();
        assert!(by_clock > Epoch::new(100_000).unwrap(), "it is later than October 2026");
        let high = Epoch::new(by_clock.number() + 1_000_000).unwrap();
        for (said, begins) in [(Epoch::new(7).unwrap(), by_clock), (high, high)] {
            let config = Config { first_epoch: said, ..config() };
            let first = first_epoch(&config, None).unwrap();
            assert!(first == begins || said < begins && first > said, "{said:?}: {first:?}");
        }
    }
}
