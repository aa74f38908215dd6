//! How far the removal of a node is, and how long it may take.
//!
//! What is left are votes and leaderships, and bytes of state that somebody still sends, as whoever takes the votes over may need it first. The time left is the
//! longer of two: of the bytes, at the rate at which they go now; of the votes, at the rate at which they have gone so far. It is an estimate, and says "about".

use std::time::Duration;

use super::NodeInfo;

/// Before this nothing is estimated: the first votes say little about the others.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What there was to be moved at first.
    votes: u64,
    bytes: u64,
}

impl Progress {
    /// What to say of the node that is to go, so long after it was to; none if it is gone.
    pub(super) fn look(&mut self, nodes: &[NodeInfo], name: &str, after: Duration) -> Option<String> {
        let node = nodes.iter().find(|node| node.name == name)?;
        let left = node.leads + node.votes;
        let to_send: u64 = nodes.iter().map(|node| node.bytes_to_send).sum();
        // Each byte is sent by one and taken in by another.
        let rate = nodes.iter().map(|node| node.bytes_per_second).sum::<u64>() / 2;
        self.votes = self.votes.max(left);
        self.bytes = self.bytes.max(to_send);
        let share = |left: u64, all: u64| if all == 0 { 1.0 } else { 1.0 - left as f64 / all as f64 };
        let done = share(left, self.votes).min(share(to_send, self.bytes));
        let mut text = format!("{:>3.0} %  leads {}, votes in {}", done * 100.0, node.leads, node.votes);
        if to_send > 0 {
            text += &format!(", {} to send at {}/s", bytes(to_send), bytes(rate));
        }
        if node.movement == "paused" {
            return Some(text + ", paused: `dictum node resume` lets it go on");
        }
        let by_bytes = if to_send == 0 { Some(0.0) } else { (rate > 0).then(|| to_send as f64 / rate as f64) };
        let gone = self.votes - left;
        let by_votes =
            if left == 0 { Some(0.0) } else { (gone > 0).then(|| after.as_secs_f64() * left as f64 / gone as f64) };
        if let (Some(by_bytes), Some(by_votes)) = (by_bytes, by_votes)
            && after >= SETTLED_AFTER
        {
            text += &format!(", about {} left", time(by_bytes.max(by_votes)));
        }
        Some(text)
    }
}

/// Seconds for people.
fn time(seconds: f64) -> String {
    let seconds = seconds.ceil().max(1.0) as u64;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// Bytes for people.
pub(super) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut figure = bytes as f64;
    let mut place = 0;
    while figure >= 1024.0 && place + 1 < units.len() {
        (figure, place) = (figure / 1024.0, place + 1);
    }
    if place == 0 { format!("{bytes} B") } else { format!("{figure:.1} {}", units[place]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, votes: u64, bytes_to_send: u64, bytes_per_second: u64) -> NodeInfo {
        let movement = "on".to_owned();
        NodeInfo { name: name.to_owned(), votes, bytes_to_send, bytes_per_second, movement, ..NodeInfo::default() }
    }

    #[test]
    fn a_removal_tells_what_is_left_and_for_how_long() {
        let mut progress = Progress::default();
        let mut look = |votes, bytes, rate, seconds| {
            let nodes = [node("n1", votes, bytes, rate), node("n2", 9, 0, rate)];
            progress.look(&nodes, "n1", Duration::from_secs(seconds)).unwrap()
        };
        assert_eq!(look(64, 3 << 20, 0, 0), "  0 %  leads 0, votes in 64, 3.0 MiB to send at 0 B/s");
        assert_eq!(
            look(32, 1 << 20, 1 << 10, 10),
            " 50 %  leads 0, votes in 32, 1.0 MiB to send at 1.0 KiB/s, about 18 min left"
        );
        assert_eq!(look(16, 0, 0, 12), " 75 %  leads 0, votes in 16, about 4 s left");
        assert_eq!(look(0, 0, 0, 20), "100 %  leads 0, votes in 0, about 1 s left");
        assert_eq!(progress.look(&[node("n2", 1, 0, 0)], "n1", Duration::ZERO), None);
    }

    #[test]
    fn what_is_paused_says_so_and_promises_nothing() {
        let mut progress = Progress::default();
        let nodes = [NodeInfo { movement: "paused".to_owned(), ..node("n1", 3, 0, 0) }];
        let text = progress.look(&nodes, "n1", Duration::from_secs(9)).unwrap();
        assert_eq!(text, "  0 %  leads 0, votes in 3, paused: `dictum node resume` lets it go on");
    }

    #[test]
    fn figures_are_for_people() {
        assert_eq!([0, 1023, 1024, 5 << 30].map(bytes), ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]);
        assert_eq!([0.2, 119.0, 119.5, 7300.0].map(time), ["1 s", "119 s", "2 min", "3 h"]);
    }
}
