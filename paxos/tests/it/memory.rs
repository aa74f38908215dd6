//! The rules about replicas without memory, of `src/recovery.rs`. The names are the rules.

use base::{Ballot, Position};
use paxos::{Knowledge, Leading, Message, RoleName};

use crate::harness::disk::Disk;
use crate::harness::talk::{accept, ballot, led, said, tell};
use crate::harness::{HEARTBEAT, World};

#[test]
fn an_amnesiac_replica_never_promises_confirms_grants_or_hands_out() {
    let mut world = led();
    world.crash(1);
    world.nodes[1].disk.unprovable = true;
    world.disks_whole = false;
    world.start(1);
    world.sync(1);
    world.network.clear();
    assert_eq!(world.replica(1).role(), RoleName::Recovering);
    for message in [
        Message::Prepare { ballot: ballot(9, 2) },
        Message::Confirm { ballot: ballot(9, 2), round: 1 },
        Message::PreVote { ballot: ballot(9, 2) },
        accept(ballot(9, 2), "x"),
        Message::Fetch {
            ballot: Some(ballot(1, 0)),
            previous: Position(0),
            previous_ballot: Ballot::default(),
            decided: Position(0),
            until: Position(1),
        },
    ] {
        tell(&mut world, 2, 1, message);
        assert_eq!(said(&mut world, 1), []);
    }
    assert_eq!(world.replica(1).promised(), ballot(1, 0));
}

#[test]
fn an_amnesiac_replica_shows_nothing_undecided_and_takes_a_higher_incarnation() {
    let mut world = led();
    tell(&mut world, 0, 1, accept(ballot(1, 0), "undecided"));
    let before = world.replica(1).hard_state().incarnation;
    world.crash(1);
    world.nodes[1].disk.unprovable = true;
    world.start(1);
    assert_eq!(world.replica(1).log().last(), Position(1));
    assert!(world.replica(1).hard_state().incarnation > before);
    assert!(world.replica(1).hard_state().recovering);
    // It stays so through a crash.
    world.sync(1);
    world.crash(1);
    world.start(1);
    assert_eq!(world.replica(1).role(), RoleName::Recovering);
}

#[test]
fn a_recovery_needs_so_many_that_they_meet_every_majority_and_a_leader() {
    let mut world = led();
    world.crash(1);
    world.nodes[1].disk = Disk::empty(9);
    world.disks_whole = false;
    world.start(1);
    world.network.clear();
    let asks = world.replica(1).hard_state().incarnation;
    let reply = |incarnation, knowledge| Message::RecoverReply { incarnation, knowledge };
    tell(&mut world, 0, 1, reply(asks, Knowledge::Lost { known: 1 }));
    let asks = world.replica(1).hard_state().incarnation;
    let noted = |promised, leads| Knowledge::Noted { promised, incarnations: vec![1, asks, 1], leads, members: None };
    tell(&mut world, 2, 1, reply(asks, noted(ballot(3, 2), None)));
    tell(&mut world, 2, 1, reply(asks, noted(ballot(3, 2), None)));
    said(&mut world, 1);
    tell(&mut world, 0, 1, accept(ballot(5, 0), "too early"));
    assert_eq!(said(&mut world, 1), [], "one voice, repeated, is one voice");
    let leads = Leading { ballot: ballot(1, 0), last: Position(1), knowable: Position(1) };
    tell(&mut world, 0, 1, reply(asks, noted(ballot(1, 0), Some(leads))));
    assert_eq!(world.replica(1).promised(), ballot(3, 2), "at least what any of them has promised");
    said(&mut world, 1);
    tell(&mut world, 0, 1, accept(ballot(1, 0), "x"));
    assert_eq!(said(&mut world, 1), [Message::Refuse { promised: ballot(3, 2) }]);
    assert_eq!(world.replica(1).role(), RoleName::Recovering, "no leader of such a ballot has told where its log ends");
}

#[test]
fn a_blank_replica_founds_only_when_every_other_agrees() {
    let mut world = World::new(3, 3);
    world.network.clear();
    let asks = world.replica(0).hard_state().incarnation;
    let blank = |incarnation| Message::RecoverReply { incarnation: asks, knowledge: Knowledge::Blank { incarnation } };
    tell(&mut world, 1, 0, blank(5));
    tell(&mut world, 1, 0, blank(5));
    assert_eq!(world.replica(0).role(), RoleName::Recovering);
    tell(&mut world, 2, 0, blank(6));
    assert_eq!(world.replica(0).role(), RoleName::Follower);
    assert_eq!(world.replica(0).hard_state().incarnations, [asks, 5, 6]);
}

#[test]
fn a_blank_replica_with_one_lost_answer_does_not_found() {
    let mut world = World::new(3, 3);
    world.network.clear();
    let asks = world.replica(0).hard_state().incarnation;
    let reply = |incarnation, knowledge| Message::RecoverReply { incarnation, knowledge };
    tell(&mut world, 1, 0, reply(asks, Knowledge::Lost { known: 77 }));
    tell(&mut world, 2, 0, reply(asks, Knowledge::Blank { incarnation: 6 }));
    assert_eq!(world.replica(0).role(), RoleName::Recovering);
    assert!(world.replica(0).hard_state().recovering);
    assert!(world.replica(0).hard_state().incarnation > 77);
}

#[test]
fn a_blank_replica_is_deaf_to_everything_else() {
    let mut world = World::new(3, 3);
    world.network.clear();
    for message in [
        Message::Prepare { ballot: ballot(1, 1) },
        Message::PreVote { ballot: ballot(1, 1) },
        accept(ballot(1, 1), "x"),
    ] {
        tell(&mut world, 1, 0, message);
    }
    assert_eq!(said(&mut world, 0), []);
    assert_eq!(world.replica(0).promised(), Ballot::default());
}

#[test]
fn a_new_incarnation_is_noted_on_disk_before_it_is_confirmed() {
    let mut world = led();
    world.nodes[2].fast = false;
    tell(&mut world, 1, 2, Message::Recover { incarnation: 40, blank: false });
    assert_eq!(said(&mut world, 2), []);
    world.sync(2);
    let answers = said(&mut world, 2);
    assert!(matches!(
        &answers[..],
        [Message::RecoverReply { incarnation: 40, knowledge: Knowledge::Noted { incarnations, .. } }]
            if incarnations[..] == [1, 40, 1]
    ));
}

#[test]
fn what_a_lost_memory_can_have_known_ends_with_what_the_leader_knew_when_it_heard_of_the_loss() {
    let mut world = led();
    world.crash(1);
    world.nodes[1].disk = Disk::empty(9);
    world.disks_whole = false;
    world.start(1);
    world.network.clear();
    let reply = |incarnation, knowledge| Message::RecoverReply { incarnation, knowledge };
    let asks = world.replica(1).hard_state().incarnation;
    tell(&mut world, 0, 1, reply(asks, Knowledge::Lost { known: 1 }));
    let asks = world.replica(1).hard_state().incarnation;
    let noted =
        |leads| Knowledge::Noted { promised: ballot(1, 0), incarnations: vec![1, asks, 1], leads, members: None };
    tell(&mut world, 2, 1, reply(asks, noted(None)));
    // Its log goes on behind what is decided.
    let leads = Leading { ballot: ballot(1, 0), last: Position(2), knowable: Position(1) };
    tell(&mut world, 0, 1, reply(asks, noted(Some(leads))));
    let opening = Message::Accept {
        ballot: ballot(1, 0),
        previous: Position(0),
        previous_ballot: Ballot::default(),
        entries: vec![world.replica(0).log().get(Position(1)).expect("the opening entry").clone()],
        decided: Position(1),
    };
    tell(&mut world, 0, 1, opening);
    world.sync(1);
    assert_eq!(world.replica(1).forgotten_until(), None, "not known before it has recovered");
    tell(&mut world, 0, 1, accept(ballot(1, 0), "under way"));
    world.sync(1);
    world.tick_only(1, HEARTBEAT);
    assert_eq!(world.replica(1).role(), RoleName::Follower);
    assert_eq!(world.replica(1).forgotten_until(), Some(Position(1)));
    // That is kept.
    world.sync(1);
    world.crash(1);
    world.start(1);
    assert_eq!(world.replica(1).forgotten_until(), Some(Position(1)));
}

#[test]
fn a_leader_tells_who_recovers_what_anybody_can_know() {
    let mut world = led();
    world.trust(0, 2, false);
    world.propose(0, "under way");
    world.network.clear();
    tell(&mut world, 1, 0, Message::Recover { incarnation: 40, blank: false });
    world.sync(0);
    let told = said(&mut world, 0).into_iter().find_map(|message| match message {
        Message::RecoverReply { knowledge: Knowledge::Noted { leads, .. }, .. } => leads,
        _ => None,
    });
    assert_eq!(told, Some(Leading { ballot: ballot(1, 0), last: Position(2), knowable: Position(1) }));
}
