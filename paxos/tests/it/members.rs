//! Rules of who votes and who leads that no story tells.

use std::time::Duration;

use base::{Ballot, NodeId, Position, Time};
use bytes::Bytes;
use paxos::{
    Config, Entry, HardState, Input, Knowledge, Log, Members, Membership, Message, Replica, Restored, RoleName, Roster,
    Tail,
};

use crate::harness::disk::Disk;
use crate::harness::talk::tell;
use crate::harness::{HEARTBEAT, World};

/// Where several are to be spared, the leadership goes to one that is not, though another one is further; and not from one to the next.
#[test]
fn a_leadership_goes_to_one_that_is_not_to_be_spared() {
    let mut world = World::founded(3, 5);
    world.elect(0);
    world.roster = Roster { preferred: NodeId(2), spared: vec![NodeId(0), NodeId(1)], ..Roster::default() };
    for index in 0..3 {
        world.turn(index, vec![Input::Roster(world.roster.clone())]);
    }
    world.propose(0, "x");
    let to_third = |envelope: &crate::harness::Envelope| envelope.to == 2;
    let (late, soon): (Vec<_>, Vec<_>) = world.network.drain(..).partition(to_third);
    world.network.extend(soon);
    world.deliver_all();
    world.turn(0, vec![Input::HandOver]);
    world.network.extend(late);
    world.run(Duration::from_millis(500));
    assert_eq!(world.leader(), Some(2));
    // There is nobody else: it stays where it is.
    world.crash(2);
    world.trust(0, 2, false);
    world.trust(1, 2, false);
    world.run(Duration::from_millis(500));
    let leader = world.leader().expect("two of three are there");
    let ballot = world.replica(leader).leads();
    world.turn(leader, vec![Input::HandOver]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(leader).leads(), ballot);
}

/// One voter is behind, and has not heard that another has got a vote; the third is gone. The two are a majority, and only the new one has everything.
#[test]
fn a_new_voter_is_elected_by_one_that_does_not_know_it() {
    let mut world = World::with_learners(3, 1, 5);
    world.elect(0);
    world.run(Duration::from_millis(500));
    world.crash(1);
    for other in [0, 2, 3] {
        world.trust(other, 1, false);
    }
    world.want(&[0, 1, 3]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(0).members().nodes(), [0, 1, 3].map(NodeId));
    world.propose(0, "x");
    world.run(Duration::from_millis(500));
    // The former voter, who could tell, is gone as well.
    world.crash(0);
    world.crash(2);
    world.start(1);
    for (one, other, up) in [(1, 0, false), (3, 0, false), (1, 2, false), (3, 2, false), (1, 3, true)] {
        world.trust(one, other, up);
    }
    world.run(Duration::from_secs(5));
    assert_eq!(world.leader(), Some(3));
}

/// Of five voters three are left, and one of these is behind: it counts by all five still. Those that have come back with empty folders grant it every pre-vote and
/// promise what it asks, and no promise of theirs counts. What the one that knows has tells it who votes. (Seed 10330: half a minute without a leader, because the one
/// that knows is to be spared, and stands later.)
#[test]
fn a_candidate_learns_who_votes_from_one_that_knows_it() {
    let mut world = World::founded(5, 5);
    world.elect(1);
    world.run(Duration::from_millis(500));
    world.crash(0);
    for other in 1..5 {
        world.trust(other, 0, false);
    }
    world.want(&[0, 1, 3]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(1).members().nodes(), [0, 1, 3].map(NodeId));
    for gone in 1..5 {
        world.crash(gone);
    }
    world.roster.spared = vec![NodeId(1)];
    world.start(1);
    world.start(0);
    for (one, other) in [(0, 1), (0, 2), (0, 4), (1, 0)] {
        world.trust(one, other, true);
    }
    for _ in 0..200 {
        world.tick(HEARTBEAT / 5);
        let emptied = |envelope: &crate::harness::Envelope| [2, 4].contains(&envelope.to);
        let (to_emptied, rest): (Vec<_>, Vec<_>) = world.network.drain(..).partition(emptied);
        world.network.extend(rest);
        for envelope in to_emptied {
            let tail = Tail::default();
            let answer = match envelope.message {
                Message::PreVote { ballot } => {
                    Message::PreVoteReply { ballot, granted: true, promised: Ballot::default(), tail }
                }
                Message::Prepare { ballot } => {
                    Message::Promise { ballot, tail, incarnation: 77, incarnations: Vec::new() }
                }
                _ => continue,
            };
            tell(&mut world, envelope.to as u16, envelope.from, answer);
        }
        world.deliver_all();
        // Never the other one: it is to be spared as long as this one can lead.
        if world.leader() == Some(0) {
            return;
        }
    }
    panic!("nobody leads, or the one that is to be spared: {:?}", world.leader());
}

/// Of the first of three founders.
fn config() -> Config {
    Config {
        me: NodeId(0),
        founders: [0, 1, 2].map(NodeId).to_vec(),
        joins: false,
        preferred: NodeId(0),
        seed: 1,
        heartbeat: HEARTBEAT,
        candidacy: HEARTBEAT,
        settle: HEARTBEAT,
        undecided_bytes_max: 1 << 20,
        asks_to_vote: false,
        stores_founders: false,
        planted: None,
    }
}

/// Whoever finds that it has forgotten a vote cuts its log below changes that it knows to be decided, perhaps below several. While the log grows there
/// again it goes by the last of them, and never by an earlier one behind it.
#[test]
fn earlier_voters_do_not_follow_later_ones_where_a_log_grows_again() {
    let group = |at: u64, voters: [u16; 3]| Members { at: Position(at), ..Members::founders(&voters.map(NodeId)) };
    let (first, second, third) = (group(2, [0, 1, 3]), group(4, [0, 1, 4]), group(6, [0, 1, 2]));
    let membership = Some(std::sync::Arc::new(Membership { now: third.clone(), before: second.clone() }));
    let state = HardState { incarnation: 1, incarnations: vec![1; 3], membership, ..HardState::default() };
    let restored = Restored { state: Some(state), ..Restored::default() };
    let mut replica = Replica::new(config(), restored, Time(0), &mut Vec::new());
    assert_eq!(
        replica.members(),
        &second,
        "what is not in the log may have been cut off, and what was before that is decided"
    );
    let ballot = Ballot { round: 3, node: NodeId(1) };
    for (previous, said, expected) in [(0, &first, &second), (2, &second, &second), (4, &third, &third)] {
        let plain = Entry { ballot, payload: Bytes::new() };
        let entries = vec![plain, Entry { ballot, payload: Bytes::from(said.encode()) }];
        let (decided, previous_ballot) = (Position(previous), if previous == 0 { Ballot::default() } else { ballot });
        let previous = Position(previous);
        let message = Message::Accept { ballot, previous, previous_ballot, entries, decided };
        replica.step(Time(1), Input::Message { from: NodeId(1), message }, &mut Vec::new());
        assert_eq!((replica.log().last(), replica.members()), (said.at, expected));
    }
    assert_eq!(replica.membership().before, second);
}

/// A state that a peer has sent is on the disk, and the power went before the journal said so: the log's last word of voters, which was never decided,
/// stands below what the state contains. The state knows better.
#[test]
fn a_state_says_who_votes_whatever_the_log_had_below_it() {
    let group = |at: u64, voters: [u16; 3]| Members { at: Position(at), ..Members::founders(&voters.map(NodeId)) };
    let (ballot, founders) = (Ballot { round: 3, node: NodeId(1) }, group(0, [0, 1, 2]));
    let (by_state, never_decided, later) = (group(5, [0, 2, 3]), group(7, [0, 1, 4]), group(11, [0, 2, 4]));
    let start = |now: &Members, last: u64| {
        let mut log = Log::new(Position(9), ballot);
        while log.last() < Position(last) {
            log.append(Entry { ballot, payload: Bytes::new() });
        }
        let membership = Membership { now: now.clone(), before: founders.clone() };
        let (incarnations, membership) = (vec![1; 3], Some(std::sync::Arc::new(membership)));
        let state = HardState { incarnation: 1, incarnations, membership, ..HardState::default() };
        let (state, members) = (Some(state), Some(by_state.clone()));
        let restored = Restored { state, log, applied: Position(9), members, ..Restored::default() };
        Replica::new(config(), restored, Time(0), &mut Vec::new()).membership().clone()
    };
    let of = |now: &Members| Membership { now: now.clone(), before: by_state.clone() };
    assert_eq!(start(&never_decided, 9), of(&by_state));
    assert_eq!(start(&founders, 9), of(&by_state));
    assert_eq!(start(&later, 11), of(&later), "what stands behind it is the log's");
    assert_eq!(start(&later, 10), of(&by_state), "and cut off with it");
}

/// The leader asks on until it knows under which incarnation a learner learns, though nothing else happens.
#[test]
fn a_learner_whose_word_was_lost_gets_its_vote_back_in_a_calm() {
    let mut world = World::with_learners(3, 1, 5);
    world.elect(0);
    world.want(&[0, 1, 3]);
    for _ in 0..50 {
        world.tick(Duration::from_millis(10));
        while let Some(envelope) = world.network.pop_front() {
            if !matches!(envelope.message, Message::Learns { .. }) {
                world.deliver(envelope);
            }
        }
    }
    assert_eq!(world.replica(2).members().nodes(), [0, 1, 3].map(NodeId));
    world.want(&[0, 1, 2]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(2).members().nodes(), [0, 1, 2].map(NodeId));
}

/// A leader that never has a quiet moment learns all the same under which incarnation a former voter learns, though its word was lost once.
#[test]
fn a_vote_comes_back_under_a_load_that_never_pauses() {
    let mut world = World::with_learners(3, 1, 5);
    world.elect(0);
    let mut lost = 0;
    let mut work = |world: &mut World, until: &[usize]| {
        world.want(until);
        let wanted: Vec<NodeId> = until.iter().map(|index| NodeId(*index as u16)).collect();
        for number in 0..500 {
            world.propose(0, &format!("x{number}"));
            world.tick(Duration::from_millis(2));
            while let Some(envelope) = world.network.pop_front() {
                let is_word = matches!(envelope.message, Message::Learns { .. });
                if is_word && envelope.from == 2 && lost == 0 {
                    lost += 1;
                } else {
                    world.deliver(envelope);
                }
            }
            for index in 0..4 {
                world.sync(index);
            }
            world.deliver_all();
            if world.replica(0).members().nodes() == wanted {
                return true;
            }
        }
        false
    };
    assert!(work(&mut world, &[0, 1, 3]), "a learner gets a vote");
    assert!(work(&mut world, &[0, 1, 2]), "whoever had one gets it back");
    assert_eq!(lost, 1);
}

/// A leader that has been told that a former voter begins anew says that it is outlived: that may get there when another one leads, which knows nothing of it, and
/// gives the vote to whom it was told of.
#[test]
fn whoever_led_before_outlives_nobody() {
    let mut world = World::with_learners(3, 1, 5);
    world.elect(0);
    world.want(&[0, 1, 3]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(2).members().nodes(), [0, 1, 3].map(NodeId));
    world.turn(0, vec![Input::HandOver]);
    world.run(Duration::from_millis(500));
    assert_ne!(world.leader(), Some(0), "another one leads");
    let former = world.replica(2).incarnation();
    let outlived = || Message::RecoverReply { incarnation: former, knowledge: Knowledge::Lost { known: former } };
    tell(&mut world, 0, 2, outlived());
    assert_eq!(world.replica(2).incarnation(), former);
    world.want(&[0, 1, 2]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(2).members().nodes(), [0, 1, 2].map(NodeId));
    assert_eq!(world.replica(2).role(), RoleName::Follower, "it has lost nothing");
    world.want(&[0, 1, 3]);
    world.run(Duration::from_millis(500));
    let leader = world.leader().expect("somebody leads");
    tell(&mut world, leader as u16, 2, outlived());
    assert!(world.replica(2).incarnation() > former, "by the word of whom it follows");
}

/// A former voter has begun anew under a higher number, and then its folder is emptied. The leader knows of that number, and others only of the one that it voted under:
/// by their word alone it would recover under one in between, and be given its vote as the learner that it was before.
#[test]
fn an_emptied_folder_is_not_given_a_vote_as_the_learner_that_it_was() {
    for seed in 0..20 {
        let mut world = World::with_learners(3, 1, seed);
        world.elect(0);
        world.want(&[0, 1, 3]);
        world.run(Duration::from_millis(500));
        world.turn(2, vec![Input::Leave]);
        world.run(Duration::from_millis(500));
        let learned_as = world.replica(2).incarnation();
        world.crash(2);
        world.nodes[2].disk = Disk::empty(7);
        world.start(2);
        let (mut recovered, mut was) = (0, RoleName::Recovering);
        for _ in 0..200 {
            if recovered > 0 {
                world.want(&[0, 1, 2]);
            }
            world.run(Duration::from_millis(5));
            let role = world.replica(2).role();
            recovered += usize::from(was == RoleName::Recovering && role != was);
            was = role;
        }
        assert_eq!(world.replica(0).members().nodes(), [0, 1, 2].map(NodeId), "{seed}");
        assert_eq!((recovered, was), (1, RoleName::Follower), "{seed}");
        assert!(world.replica(2).incarnation() > learned_as, "{seed}");
    }
}

/// Orders are counted, and a leader that has heard of an earlier one alone leads behind a later one: it changes nothing. An order that wants those who vote
/// already stands in the log as well.
#[test]
fn an_older_order_changes_nothing_behind_a_newer_one() {
    let mut world = World::with_learners(3, 1, 5);
    world.elect(0);
    world.roster.number = 1;
    world.want(&[0, 1, 2]);
    world.run(Duration::from_millis(500));
    let number_of = |world: &World, index: usize| world.replica(index).members().number;
    assert_eq!((number_of(&world, 0), world.replica(0).members().at > Position(0)), (1, true));
    let earlier = world.roster.clone();
    world.roster.number = 2;
    world.preferred = 1;
    world.want(&[0, 1, 3]);
    world.run(Duration::from_millis(500));
    assert_eq!((number_of(&world, 1), world.replica(1).members().nodes()), (2, [0, 1, 3].map(NodeId).to_vec()));
    world.turn(1, vec![Input::Roster(Roster { preferred: NodeId(1), ..earlier })]);
    world.turn(0, vec![Input::HandOver]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.leader(), Some(1), "it knows the earlier order alone");
    world.propose(1, "x");
    world.run(Duration::from_millis(500));
    assert_eq!((number_of(&world, 1), world.replica(1).members().nodes()), (2, [0, 1, 3].map(NodeId).to_vec()));
}

/// A learner that was to get a vote as the one that it was before its process ended, and has begun anew since: it recovers, and votes when its owner lets it.
#[test]
fn a_learner_that_others_take_for_an_earlier_one_recovers_before_it_votes() {
    let mut world = World::with_learners(3, 1, 5);
    world.elect(0);
    world.propose(0, "x");
    world.run(Duration::from_millis(500));
    let before = world.replica(3).incarnation();
    world.turn(3, vec![Input::Lost]);
    assert_eq!(world.replica(3).role(), RoleName::Recovering);
    world.want(&[0, 1, 3]);
    world.run(Duration::from_millis(500));
    assert!(world.replica(3).asks_to_vote() && world.replica(3).incarnation() > before);
    let replica = world.nodes[3].replica.as_mut().expect("it is up");
    replica.let_vote();
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(3).role(), RoleName::Follower);
    assert_eq!(world.replica(0).members().nodes(), [0, 1, 3].map(NodeId));
    world.crash(1);
    world.crash(2);
    for (one, other) in [(0, 1), (0, 2), (3, 1), (3, 2)] {
        world.trust(one, other, false);
    }
    world.propose(0, "y");
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(0).decided(), world.replica(0).log().last(), "its vote counts");
}

/// A founder whose folder never had a promise waits for the word of all others, and one of them votes no more and is gone: it recovers by those that vote now.
#[test]
fn a_blank_founder_does_not_wait_for_one_that_has_left() {
    for seed in 0..20 {
        let mut world = World::with_learners(3, 1, seed);
        world.crash(2);
        world.nodes[2].disk = Disk::empty(world.replica(0).hard_state().incarnations[2]);
        world.elect(0);
        world.want(&[0, 2, 3]);
        world.run(Duration::from_millis(500));
        assert_eq!(world.replica(0).members().nodes(), [0, 2, 3].map(NodeId), "{seed}");
        world.crash(1);
        for other in [0, 2, 3] {
            world.trust(other, 1, false);
        }
        world.start(2);
        world.run(Duration::from_secs(2));
        assert_eq!(world.replica(2).role(), RoleName::Follower, "{seed}");
        world.propose(0, "x");
        world.run(Duration::from_millis(500));
        assert_eq!(world.replica(2).decided(), world.replica(0).log().last(), "{seed}");
    }
}

/// Whoever votes alone wins at once, and has learners that take its entries: if it forgot the ballot under which it has sent them, it would use that once more for others.
#[test]
fn who_votes_alone_leads_when_its_promise_is_on_disk() {
    let mut world = World::with_learners(1, 1, 5);
    world.nodes[0].fast = false;
    for _ in 0..3 {
        world.run(Duration::from_millis(500));
        assert_eq!(world.leader(), None);
        world.propose(0, "lost");
        world.run(Duration::from_millis(50));
        assert_eq!(world.replica(1).log().last(), Position(0), "nothing is said under a ballot that may be forgotten");
        world.crash(0);
        world.start(0);
    }
    world.run(Duration::from_millis(500));
    world.sync(0);
    world.run(Duration::from_millis(50));
    assert_eq!(world.leader(), Some(0));
    world.nodes[0].fast = true;
    world.propose(0, "x");
    world.run(Duration::from_millis(500));
    assert_eq!(world.decided_payloads(1).last().map(String::as_str), Some("x"));
}

/// A voter whose folder was emptied is there again, and has not said a word yet: what it had before is no reason to go on with it and one other alone, who could never
/// lead without it.
#[test]
fn who_has_said_nothing_since_it_came_back_is_not_close() {
    let mut world = World::founded(3, 5);
    world.elect(0);
    world.propose(0, "x");
    world.run(Duration::from_millis(500));
    world.crash(2);
    world.trust(0, 2, false);
    world.run(Duration::from_millis(100));
    // Its node is up, and says nothing of a replica.
    world.nodes[0].told[2] = (false, None, None);
    world.trust(0, 2, true);
    world.want(&[0, 2]);
    world.run(Duration::from_millis(500));
    assert_eq!(world.replica(0).members().nodes(), [0, 1, 2].map(NodeId));
    assert!(!world.replica(0).members().is_joint());
    world.nodes[2].disk = Disk::empty(9);
    world.start(2);
    world.run(Duration::from_secs(2));
    assert_eq!(world.replica(0).members().nodes(), [0, 2].map(NodeId));
}

/// A voter that has lost its memory has the log again, and does not vote yet: whoever leads with it alone could never be elected again.
#[test]
fn who_recovers_is_not_close() {
    let mut world = World::founded(3, 5);
    world.elect(0);
    world.propose(0, "x");
    world.run(Duration::from_millis(500));
    // It votes when its owner lets it.
    world.turn(2, vec![Input::Lost]);
    world.run(Duration::from_millis(500));
    assert!(world.replica(2).asks_to_vote());
    world.want(&[0, 2]);
    world.run(Duration::from_secs(2));
    assert_eq!(world.replica(0).members().nodes(), [0, 1, 2].map(NodeId));
    world.nodes[2].replica.as_mut().expect("it is up").let_vote();
    world.run(Duration::from_secs(2));
    assert_eq!(world.replica(0).members().nodes(), [0, 2].map(NodeId));
}

/// The snapshot that had all of a log is damaged, and the journal has none of its entries any more, as others have let it go. The state knows that there were some.
#[test]
fn a_replica_that_lacks_what_it_knew_to_be_decided_recovers() {
    let ballot = Ballot { round: 3, node: NodeId(1) };
    let start = |last: u64, applied: u64, joins: bool| {
        let state = HardState {
            promised: ballot,
            decided: Position(5),
            incarnation: 1,
            incarnations: if joins { Vec::new() } else { vec![1; 3] },
            joins,
            ..HardState::default()
        };
        let (state, log, applied) = (Some(state), Log::new(Position(last), ballot), Position(applied));
        let restored = Restored { state, log, applied, ..Restored::default() };
        Replica::new(config(), restored, Time(0), &mut Vec::new()).role()
    };
    assert_eq!((start(5, 5, false), start(5, 3, false)), (RoleName::Follower, RoleName::Follower));
    assert_eq!((start(0, 0, false), start(3, 3, false)), (RoleName::Recovering, RoleName::Recovering));
    assert_eq!(start(0, 0, true), RoleName::Follower, "it has promised nothing");
}

/// A round of reads was under way to two that are taken their votes, and are gone before they answer.
#[test]
fn reads_do_not_wait_for_those_whose_votes_were_taken() {
    let mut world = World::founded(3, 5);
    world.elect(0);
    world.run(Duration::from_millis(500));
    let round = world.nodes[0].replica.as_mut().and_then(Replica::request_confirmation);
    world.turn(0, Vec::new());
    world.network.retain(|envelope| !matches!(envelope.message, Message::Confirm { .. }));
    world.want(&[0]);
    world.deliver_all();
    assert_eq!(world.replica(0).members().nodes(), [NodeId(0)]);
    for gone in [1, 2] {
        world.crash(gone);
        world.trust(0, gone, false);
    }
    assert_eq!(world.nodes[0].confirmed, []);
    world.run(Duration::from_millis(500));
    assert_eq!(world.nodes[0].confirmed, round.into_iter().collect::<Vec<u64>>());
}
