//! Rounds that no election can have come to: `paxos/src/far.rs`.

use base::{NodeId, Position};
use paxos::{Input, Message};

use crate::harness::World;
use crate::harness::talk::{accept, ballot, led, said, tell};

#[test]
fn a_round_out_of_reach_is_believed_by_the_word_of_two() {
    const FAR: u64 = u64::MAX - 9;
    let mut world = led();
    let (promised, tail) = (world.replica(1).promised(), world.replica(1).log().tail());
    let lies = |node| {
        let ballot = ballot(FAR, node);
        [
            Message::Prepare { ballot },
            Message::Refuse { promised: ballot },
            Message::PreVote { ballot },
            Message::PreVoteReply { ballot: promised, granted: false, promised: ballot, tail },
            accept(ballot, "far"),
        ]
    };
    for lie in lies(2) {
        tell(&mut world, 2, 1, lie);
        assert_eq!(said(&mut world, 1), []);
    }
    assert_eq!((world.replica(1).promised(), world.replica(1).log().tail()), (promised, tail));
    // Another one has come there, too: this one was away.
    tell(&mut world, 0, 1, Message::Prepare { ballot: ballot(FAR - 3, 0) });
    world.sync(1);
    assert!(matches!(said(&mut world, 1)[..], [Message::Promise { .. }]));
    assert_eq!(world.replica(1).promised(), ballot(FAR - 3, 0));
}

#[test]
fn many_attempts_are_within_reach() {
    let mut world = led();
    let near = ballot(1 << 24, 2);
    tell(&mut world, 2, 1, Message::Prepare { ballot: near });
    world.sync(1);
    assert!(matches!(said(&mut world, 1)[..], [Message::Promise { .. }]));
    assert_eq!(world.replica(1).promised(), near);
}

/// A newcomer that believed the first word passed it on, and was the second replica for all others.
#[test]
fn a_newcomer_believes_no_round_out_of_reach_by_the_word_of_one() {
    const FAR: u64 = 1 << 40;
    let mut world = World::with_learners(3, 1, 3);
    world.elect(0);
    let said_by = |node, round| Message::Prepare { ballot: ballot(round, node) };
    tell(&mut world, 2, 3, said_by(2, FAR));
    world.turn(3, vec![Input::Message { from: NodeId(2), message: accept(ballot(FAR, 2), "far") }]);
    world.sync(3);
    assert!(world.replica(3).promised().round < FAR);
    // The pings of another one speak of it: the group has come there.
    let rests = Some((ballot(FAR + 2, 0), Position(1)));
    world.turn(3, vec![Input::Peer { peer: NodeId(1), up: true, leads: None, rests }]);
    tell(&mut world, 0, 3, accept(ballot(FAR + 2, 0), "far"));
    world.sync(3);
    assert_eq!(world.replica(3).promised().round, FAR + 2);
}
