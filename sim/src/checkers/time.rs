//! Property: the cluster's time is near the true one, and no log has come further.
//!
//! A log never goes back. One that is ahead by two days keeps every key for two days longer, and has let those be over that had less than that to live.

use base::WallTime;

/// The error in a node's times when it is `truth`, if there is one. `shown`: the cluster's time, if the node knows it, and the latest time in its logs. `bounds`: how many milliseconds
/// these may be ahead, and how many the cluster's time may be behind.
#[must_use]
pub fn check(truth: WallTime, shown: (Option<WallTime>, WallTime), bounds: (u64, u64)) -> Option<String> {
    let ((cluster, log), (ahead, behind)) = (shown, bounds);
    if log.0 > truth.0.saturating_add(ahead) {
        return Some(format!("a log is {} ms ahead of the time", log.0 - truth.0));
    }
    let cluster = cluster?;
    if cluster.0 > truth.0.saturating_add(ahead) {
        return Some(format!("the cluster's time is {} ms ahead", cluster.0 - truth.0));
    }
    (cluster.0.saturating_add(behind) < truth.0)
        .then(|| format!("the cluster's time is {} ms behind", truth.0 - cluster.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_far_from_the_truth_is_said() {
        let shown = |cluster, log| check(WallTime(1000), (cluster, WallTime(log)), (10, 100));
        assert_eq!(shown(Some(WallTime(1010)), 1010), None);
        assert_eq!(shown(Some(WallTime(900)), 0), None, "a log may be of long ago");
        assert_eq!(shown(None, 0), None);
        assert!(shown(None, 1011).is_some_and(|text| text.contains("a log is 11 ms ahead")));
        assert!(shown(Some(WallTime(1011)), 0).is_some_and(|text| text.contains("time is 11 ms ahead")));
        assert!(shown(Some(WallTime(899)), 0).is_some_and(|text| text.contains("101 ms behind")));
    }
}
