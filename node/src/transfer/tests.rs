//! Two nodes that mean different transfers find together again.

use super::*;
use crate::origins::Origins;
use data::Tree;

const PARTITION: PartitionId = crate::group::DEFAULT_PARTITION;
const SENDERS: [NodeId; 2] = [NodeId(0), NodeId(1)];
const RECEIVER: NodeId = NodeId(2);

/// A state of several blocks.
fn state(position: u64) -> (Position, Ballot, Image) {
    let mut tree = Tree::new();
    for key in 0..5 {
        let value = vec![b'x'; base::limits::SNAPSHOT_BLOCK_BYTES_TARGET];
        data::apply(&mut tree, &data::EntryContext::default(), &[b"SET", &[b'k', key], &value]);
    }
    let place = (Position(position), Ballot { round: 1, node: NodeId(0) });
    (place.0, place.1, Image::new(place.0, place.1, &Origins::default(), &tree))
}

/// Lets the senders and the receiver speak for so long; true when the state has arrived. The senders are asked for a snapshot all
/// the time, as by a leader.
fn arrives(
    senders: &mut [Transfers; 2],
    wanted_from: &[usize],
    receiver: &mut Transfers,
    now: &mut Time,
    for_ms: u64,
) -> bool {
    for _ in 0..for_ms / 10 {
        *now = *now + Duration::from_millis(10);
        for (at, sender) in senders.iter_mut().enumerate() {
            let mut sent: Vec<PeerMessage> =
                sender.tick(*now, PARTITION).into_iter().map(|(_, message)| message).collect();
            if wanted_from.contains(&at) {
                sent.extend(sender.start(*now, PARTITION, RECEIVER, || state(7)));
            }
            while let Some(message) = sent.pop() {
                let answer = match receiver.on_block(*now, SENDERS[at], Position(0), false, message) {
                    Received::Complete(state, _) => {
                        assert_eq!(state.tree.len(), 5);
                        return true;
                    }
                    Received::Answer(answer) => answer,
                    Received::Broken(text) => panic!("{text}"),
                    Received::Ignored => continue,
                };
                let PeerMessage::SnapshotWant { position, index, done, .. } = answer else { panic!("{answer:?}") };
                sent.extend(sender.on_want(*now, PARTITION, RECEIVER, position, index, done));
            }
        }
    }
    false
}

/// The receiver has two blocks of an earlier life of the sender.
fn half_received() -> (Transfers, Time) {
    let mut now = Time(1_000_000_000_000);
    let (mut sender, mut receiver) = (Transfers::default(), Transfers::default());
    let mut message = sender.start(now, PARTITION, RECEIVER, || state(7)).unwrap();
    for _ in 0..2 {
        now = now + Duration::from_millis(10);
        let Received::Answer(PeerMessage::SnapshotWant { position, index, done, .. }) =
            receiver.on_block(now, SENDERS[0], Position(0), false, message)
        else {
            panic!("a block is wanted")
        };
        message = sender.on_want(now, PARTITION, RECEIVER, position, index, done).unwrap();
    }
    (receiver, now)
}

#[test]
fn a_sender_that_begins_anew_is_followed() {
    let (mut receiver, mut now) = half_received();
    let mut senders = [Transfers::default(), Transfers::default()];
    assert!(arrives(&mut senders, &[0], &mut receiver, &mut now, 15_000));
}

#[test]
fn a_sender_that_goes_on_in_vain_does_not_keep_others_away() {
    let (mut receiver, mut now) = half_received();
    let mut senders = [Transfers::default(), Transfers::default()];
    // It leads no more after a second, but its transfer goes on.
    assert!(!arrives(&mut senders, &[0], &mut receiver, &mut now, 1_000));
    assert!(arrives(&mut senders, &[1], &mut receiver, &mut now, 15_000));
}
