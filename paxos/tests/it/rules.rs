//! Each line of the proof has a test. The names are the rules. Those about lost memory are in `memory.rs`.

use std::time::Duration;

use base::limits::{FOLLOWER_TURN_BYTES_TARGET, FOLLOWER_WINDOW_BYTES_MAX};
use base::{Ballot, NodeId, Position};
use bytes::Bytes;
use paxos::{Entry, Input, Message, RoleName, Tail};

use crate::harness::disk::Disk;
use crate::harness::talk::{accept, ballot, entry, led, said, tell};
use crate::harness::{CANDIDACY, HEARTBEAT, World};

#[test]
fn a_promise_leaves_only_after_it_is_on_disk() {
    let mut world = led();
    world.nodes[1].fast = false;
    tell(&mut world, 2, 1, Message::Prepare { ballot: ballot(2, 2) });
    assert_eq!(said(&mut world, 1), []);
    // Asked again meanwhile: still nothing.
    tell(&mut world, 2, 1, Message::Prepare { ballot: ballot(2, 2) });
    assert_eq!(said(&mut world, 1), []);
    world.sync(1);
    let answers = said(&mut world, 1);
    assert_eq!(answers.len(), 2);
    assert!(matches!(&answers[0], Message::Promise { ballot: of, .. } if *of == ballot(2, 2)));
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_candidate_asks_for_promises_only_after_its_own_is_on_disk() {
    let mut world = World::founded(3, 3);
    world.nodes[0].fast = false;
    world.tick_only(0, Duration::from_millis(200));
    let asked = said(&mut world, 0);
    let Some(Message::PreVote { ballot: wanted }) = asked.first() else { panic!("it asks first: {asked:?}") };
    let (granted, tail) = (true, Tail::default());
    let yes = Message::PreVoteReply { ballot: *wanted, granted, promised: Ballot::default(), tail };
    tell(&mut world, 1, 0, yes);
    assert_eq!(said(&mut world, 0), []);
    world.sync(0);
    assert_eq!(said(&mut world, 0), vec![Message::Prepare { ballot: *wanted }; 2]);
}

#[test]
fn a_promise_is_kept_through_a_crash() {
    let mut world = led();
    tell(&mut world, 2, 1, Message::Prepare { ballot: ballot(5, 2) });
    world.crash(1);
    world.start(1);
    said(&mut world, 1);
    tell(&mut world, 0, 1, accept(ballot(1, 0), "under a lower ballot"));
    assert_eq!(said(&mut world, 1), [Message::Refuse { promised: ballot(5, 2) }]);
    assert_eq!(world.replica(1).log().last(), Position(1));
}

#[test]
fn an_accepted_leaves_only_after_the_entries_are_on_disk() {
    let mut world = led();
    world.nodes[1].fast = false;
    tell(&mut world, 0, 1, accept(ballot(1, 0), "x"));
    tell(&mut world, 0, 1, accept(ballot(1, 0), "x"));
    assert_eq!(said(&mut world, 1), []);
    world.sync(1);
    // One answer for both: they would have said the same.
    assert_eq!(said(&mut world, 1), [Message::Accepted { ballot: ballot(1, 0), last: Position(2) }]);
    tell(&mut world, 0, 1, accept(ballot(1, 0), "x"));
    assert_eq!(said(&mut world, 1), [Message::Accepted { ballot: ballot(1, 0), last: Position(2) }]);
}

#[test]
fn what_is_held_in_memory_keeps_the_flow_going_and_counts_for_nothing() {
    let mut world = led();
    world.nodes[0].fast = false;
    let big = || Input::Propose { payload: Bytes::from(vec![7; FOLLOWER_WINDOW_BYTES_MAX / 2]) };
    world.turn(0, vec![big(), big(), big(), big()]);
    let entries_to = |world: &mut World, follower: usize| -> usize {
        let sent = std::mem::take(&mut world.network);
        let to = sent.iter().filter(|envelope| envelope.to == follower);
        to.map(|envelope| if let Message::Accept { entries, .. } = &envelope.message { entries.len() } else { 0 }).sum()
    };
    assert_eq!(entries_to(&mut world, 1), 1, "that is enough for a turn");
    world.turn(0, vec![]);
    assert_eq!(entries_to(&mut world, 1), 1, "the window is full");
    world.turn(0, vec![]);
    assert_eq!(entries_to(&mut world, 1), 0, "the window is full");
    let held = |last| Message::Held { ballot: ballot(1, 0), last: Position(last) };
    tell(&mut world, 1, 0, held(3));
    world.turn(0, vec![]);
    assert_eq!(entries_to(&mut world, 1), 2, "there is room again");
    // Of positions that the leader does not have, or of another leadership: nothing.
    tell(&mut world, 1, 0, held(99));
    tell(&mut world, 1, 0, Message::Held { ballot: ballot(9, 2), last: Position(4) });
    // Both followers hold everything, and nobody has it on disk.
    tell(&mut world, 1, 0, held(5));
    tell(&mut world, 2, 0, held(5));
    world.turn(0, vec![]);
    assert_eq!(world.replica(0).decided(), Position(1));
    assert!(world.replica(0).copies().iter().all(|(_, last)| *last <= Position(1)));
}

#[test]
fn who_is_held_back_adds_nothing_to_its_log_and_goes_on_otherwise() {
    let mut world = led();
    let hold = |world: &mut World, index: usize, held| {
        world.nodes[index].replica.as_mut().expect("it is up").hold_back(held);
    };
    hold(&mut world, 1, true);
    tell(&mut world, 0, 1, accept(ballot(1, 0), "x"));
    assert_eq!((said(&mut world, 1), world.replica(1).log().last()), (vec![], Position(1)));
    // Signs of life, and questions that have nothing to do with entries, are answered.
    tell(&mut world, 0, 1, Message::Confirm { ballot: ballot(1, 0), round: 7 });
    assert_eq!(said(&mut world, 1), [Message::Confirmed { ballot: ballot(1, 0), round: 7 }]);
    hold(&mut world, 1, false);
    tell(&mut world, 0, 1, accept(ballot(1, 0), "x"));
    assert_eq!(said(&mut world, 1), [Message::Accepted { ballot: ballot(1, 0), last: Position(2) }]);
    // A leader takes no proposals; what it has proposed goes on.
    hold(&mut world, 0, true);
    assert!(!world.replica(0).can_propose());
    world.turn(0, vec![Input::Propose { payload: Bytes::from_static(b"y") }]);
    assert_eq!(world.replica(0).log().last(), Position(1));
    hold(&mut world, 0, false);
    assert!(world.replica(0).can_propose());
}

#[test]
fn what_comes_under_a_lower_ballot_is_refused() {
    let mut world = led();
    tell(&mut world, 2, 1, Message::Prepare { ballot: ballot(4, 2) });
    said(&mut world, 1);
    for message in [
        Message::Prepare { ballot: ballot(1, 0) },
        accept(ballot(1, 0), "x"),
        Message::Confirm { ballot: ballot(1, 0), round: 1 },
    ] {
        tell(&mut world, 0, 1, message);
        assert_eq!(said(&mut world, 1), [Message::Refuse { promised: ballot(4, 2) }]);
    }
}

#[test]
fn a_ballot_belongs_to_its_node() {
    let mut world = led();
    tell(&mut world, 2, 1, Message::Prepare { ballot: ballot(9, 0) });
    tell(&mut world, 2, 1, accept(ballot(9, 0), "x"));
    assert_eq!(said(&mut world, 1), []);
    assert_eq!(world.replica(1).promised(), ballot(1, 0));
}

#[test]
fn entries_are_taken_only_after_what_they_follow() {
    let mut world = led();
    let entries = vec![entry(ballot(1, 0), "three")];
    let (previous, previous_ballot, decided) = (Position(2), ballot(1, 0), Position(1));
    tell(&mut world, 0, 1, Message::Accept { ballot: ballot(1, 0), previous, previous_ballot, entries, decided });
    let answers = said(&mut world, 1);
    assert!(matches!(answers[..], [Message::Mismatch { previous: Position(2), last: Position(1), .. }]), "{answers:?}");
    assert_eq!(world.replica(1).log().last(), Position(1));
}

#[test]
fn what_is_decided_is_believed_only_as_far_as_the_logs_are_known_to_agree() {
    let mut world = led();
    let (previous, previous_ballot, entries) = (Position(1), ballot(1, 0), Vec::new());
    let decided = Position(7);
    tell(&mut world, 0, 1, Message::Accept { ballot: ballot(1, 0), previous, previous_ballot, entries, decided });
    assert_eq!(world.replica(1).decided(), Position(1));
    tell(&mut world, 0, 1, Message::Decided { ballot: ballot(1, 0), decided });
    assert_eq!(world.replica(1).decided(), Position(1));
}

#[test]
fn a_decided_entry_is_never_cut() {
    let mut world = led();
    // A leader that would replace the decided opening entry: it cannot exist, so something is badly wrong.
    let entries = vec![entry(ballot(7, 2), "usurper")];
    let (previous, previous_ballot, decided) = (Position(0), Ballot::default(), Position(0));
    tell(&mut world, 2, 1, Message::Accept { ballot: ballot(7, 2), previous, previous_ballot, entries, decided });
    assert!(world.nodes[1].fatal.is_some());
    assert_eq!(world.replica(1).log().ballot_at(Position(1)), Some(ballot(1, 0)));
    assert_eq!(said(&mut world, 1), []);
}

#[test]
fn an_undecided_entry_gives_way_to_a_higher_leader() {
    let mut world = led();
    tell(&mut world, 0, 1, accept(ballot(1, 0), "never decided"));
    tell(&mut world, 2, 1, accept(ballot(2, 2), "instead"));
    assert_eq!(world.replica(1).log().get(Position(2)), Some(&entry(ballot(2, 2), "instead")));
}

#[test]
fn entries_before_the_opening_entry_are_not_decided_by_counting() {
    let mut world = led();
    tell(&mut world, 0, 1, accept(ballot(1, 0), "adopted"));
    world.crash(0);
    world.network.clear();
    world.trust(0, 1, false);
    world.trust(0, 2, false);
    while world.replica(1).leads().is_none() {
        world.tick_only(1, Duration::from_millis(10));
        while let Some(envelope) = world.network.pop_front() {
            if !matches!(envelope.message, Message::Accept { .. }) {
                world.deliver(envelope);
            }
        }
    }
    let now = world.replica(1).promised();
    assert_eq!(world.replica(1).opening(), Some(Position(3)));
    // Two of three have entry 2 on disk, and that alone says nothing under the new ballot.
    tell(&mut world, 2, 1, Message::Accepted { ballot: now, last: Position(2) });
    assert_eq!(world.replica(1).decided(), Position(1));
    world.disks_whole = false;
    tell(&mut world, 2, 1, Message::Accepted { ballot: now, last: Position(3) });
    assert_eq!(world.replica(1).decided(), Position(3));
}

#[test]
fn only_disks_are_counted_the_leaders_own_like_the_others() {
    let mut world = led();
    world.nodes[0].fast = false;
    world.propose(0, "x");
    world.nodes[2].fast = false;
    world.deliver_all();
    assert_eq!(world.replica(0).decided(), Position(1), "one disk of three");
    world.sync(0);
    assert_eq!(world.replica(0).decided(), Position(2), "two disks of three");
}

#[test]
fn answers_to_an_earlier_leadership_are_not_counted() {
    let mut world = led();
    world.propose(0, "x");
    world.network.clear();
    tell(&mut world, 1, 0, Message::Accepted { ballot: ballot(0, 0), last: Position(2) });
    assert_eq!(world.replica(0).decided(), Position(1));
    tell(&mut world, 1, 0, Message::Accepted { ballot: ballot(1, 0), last: Position(9) });
    assert_eq!(world.replica(0).decided(), Position(1), "nobody can have what was never proposed");
}

#[test]
fn a_lone_voter_decides_only_what_its_disk_has() {
    let mut world = World::founded(1, 3);
    world.elect(0);
    world.nodes[0].fast = false;
    world.propose(0, "one");
    let token = world.nodes[0].disk.sync(1).expect("one batch was written");
    let two = Input::Propose { payload: Bytes::from_static(b"two") };
    world.nodes[0].on_disk = token;
    // In one turn: a proposal, and the news that everything before it is on disk.
    world.turn(0, vec![two, Input::Persisted { token }]);
    assert_eq!(world.replica(0).decided(), Position(2));
    world.sync(0);
    assert_eq!(world.replica(0).decided(), Position(3));
}

#[test]
fn a_deposed_leader_forgets_what_it_never_wrote() {
    let mut world = led();
    // In one turn: a proposal, and a higher ballot. The proposal never reaches the disk.
    let proposal = Input::Propose { payload: Bytes::from_static(b"never written") };
    let prepare = Input::Message { from: NodeId(1), message: Message::Prepare { ballot: ballot(2, 1) } };
    world.turn(0, vec![proposal, prepare]);
    let answers = said(&mut world, 0);
    let tail = Tail { ballot: ballot(1, 0), last: Position(1) };
    assert!(matches!(answers[..], [Message::Promise { tail: told, .. }] if told == tail), "{answers:?}");
    tell(&mut world, 1, 0, accept(ballot(2, 1), "by the next leader"));
    world.crash(0);
    world.start(0);
    assert_eq!(world.replica(0).log().last(), Position(2), "no gap");
}

#[test]
fn a_candidate_with_the_smaller_tail_fetches_before_it_leads() {
    let mut world = led();
    tell(&mut world, 0, 2, accept(ballot(1, 0), "only n3 has it"));
    world.network.clear();
    world.crash(0);
    world.trust(0, 1, false);
    world.trust(0, 2, false);
    world.run_until(Duration::from_secs(2), |world| world.replica(1).leads().is_some());
    assert!(world.probes.contains("paxos: candidate fetches a greater tail"));
    assert_eq!(world.replica(1).log().get(Position(2)), Some(&entry(ballot(1, 0), "only n3 has it")));
    assert_eq!(world.replica(1).opening(), Some(Position(3)));
}

#[test]
fn one_promise_of_five_beside_its_own_is_not_enough() {
    let mut world = World::founded(5, 3);
    world.cuts.extend([(2, 0), (3, 0), (4, 0)]);
    world.run(Duration::from_secs(1));
    assert!((0..5).all(|index| index != 0 || world.replica(index).leads().is_none()));
}

#[test]
fn who_hears_a_working_leader_grants_no_pre_vote() {
    let mut world = led();
    tell(&mut world, 2, 1, Message::PreVote { ballot: ballot(2, 2) });
    assert!(matches!(said(&mut world, 1)[..], [Message::PreVoteReply { granted: false, .. }]));
    tell(&mut world, 2, 0, Message::PreVote { ballot: ballot(2, 2) });
    assert!(matches!(said(&mut world, 0)[..], [Message::PreVoteReply { granted: false, .. }]), "the leader itself");
    world.trust(0, 1, false);
    tell(&mut world, 2, 1, Message::PreVote { ballot: ballot(2, 2) });
    assert!(matches!(said(&mut world, 1)[..], [Message::PreVoteReply { granted: true, .. }]));
    assert_eq!(world.replica(1).promised(), ballot(1, 0), "a pre-vote changes nothing");
}

#[test]
fn a_replica_that_reaches_no_majority_does_not_even_ask() {
    let mut world = World::founded(3, 3);
    world.trust(0, 1, false);
    world.trust(0, 2, false);
    for _ in 0..100 {
        world.tick_only(0, HEARTBEAT);
    }
    assert_eq!(said(&mut world, 0), []);
    assert_eq!(world.replica(0).promised(), Ballot::default());
}

#[test]
fn a_leader_without_a_majority_steps_down() {
    let mut world = led();
    world.trust(0, 1, false);
    world.trust(0, 2, false);
    world.tick_only(0, Duration::from_millis(1));
    world.tick_only(0, CANDIDACY - Duration::from_millis(1));
    assert_eq!(world.replica(0).role(), RoleName::Leader, "the cut may be short");
    world.tick_only(0, Duration::from_millis(1));
    assert_eq!(world.replica(0).role(), RoleName::Follower);
    assert!(!world.replica(0).can_propose());
}

#[test]
fn a_leader_is_believed_in_only_while_it_speaks() {
    let mut world = World::founded(3, 3);
    // It spoke once, and the failure detector has never heard that it led.
    let (previous, previous_ballot, decided) = (Position(0), Ballot::default(), Position(0));
    let entries = vec![entry(ballot(1, 2), "")];
    tell(&mut world, 2, 1, Message::Accept { ballot: ballot(1, 2), previous, previous_ballot, entries, decided });
    assert_eq!(world.replica(1).leader(), Some((NodeId(2), ballot(1, 2))));
    world.tick_only(1, CANDIDACY);
    assert_eq!(world.replica(1).leader(), None);
    tell(&mut world, 0, 1, Message::PreVote { ballot: ballot(2, 0) });
    assert!(said(&mut world, 1).iter().any(|it| matches!(it, Message::PreVoteReply { granted: true, .. })));
}

#[test]
fn a_refused_leader_stops_at_once() {
    let mut world = led();
    tell(&mut world, 1, 0, Message::Refuse { promised: ballot(3, 1) });
    assert_eq!(world.replica(0).role(), RoleName::Follower);
    assert_eq!(world.replica(0).promised(), ballot(3, 1));
    tell(&mut world, 1, 0, Message::Refuse { promised: ballot(2, 1) });
    assert_eq!(world.replica(0).promised(), ballot(3, 1), "promises only grow");
}

#[test]
fn a_read_waits_for_a_round_that_is_sent_after_it() {
    let mut world = led();
    let round = |world: &mut World| world.nodes[0].replica.as_mut().and_then(paxos::Replica::request_confirmation);
    assert_eq!(round(&mut world), Some(1));
    world.turn(0, Vec::new());
    assert_eq!(round(&mut world), Some(2), "round 1 is already under way");
    let yes = |round| Message::Confirmed { ballot: ballot(1, 0), round };
    tell(&mut world, 1, 0, yes(1));
    assert_eq!(world.nodes[0].confirmed, [1]);
    tell(&mut world, 1, 0, yes(1));
    assert_eq!(world.nodes[0].confirmed, [1], "an answer to round 1 says nothing about round 2");
    tell(&mut world, 2, 0, yes(2));
    assert_eq!(world.nodes[0].confirmed, [1, 2]);
    assert_eq!(world.nodes[1].replica.as_mut().and_then(paxos::Replica::request_confirmation), None);
}

#[test]
fn a_replica_with_a_hole_does_not_run_for_leader() {
    let mut world = led();
    world.propose(0, "two");
    world.deliver_all();
    world.propose(0, "three");
    world.deliver_all();
    world.crash(1);
    world.nodes[1].disk.damaged = Some((Position(2), Position(2)));
    world.crash(0);
    world.network.clear();
    world.start(1);
    world.trust(0, 1, false);
    world.trust(0, 2, false);
    assert!(world.replica(1).log().hole().is_some());
    world.cuts.insert((2, 1));
    for _ in 0..100 {
        world.tick_only(1, HEARTBEAT);
    }
    assert!(said(&mut world, 1).iter().all(|it| matches!(it, Message::Fetch { ballot: None, .. })), "it only repairs");
    world.cuts.clear();
    world.tick_only(1, HEARTBEAT);
    world.deliver_all();
    assert!(world.replica(1).log().hole().is_none());
}

#[test]
fn a_hand_over_takes_no_proposals_and_is_given_up_in_time() {
    let mut world = led();
    world.turn(0, vec![Input::HandOver]);
    assert!(!world.replica(0).can_propose() && world.replica(0).handing_over());
    world.network.clear();
    world.tick_only(0, CANDIDACY * 2);
    assert!(world.replica(0).can_propose(), "nobody took over");
}

#[test]
fn only_the_leader_that_is_obeyed_can_hand_over() {
    let mut world = led();
    tell(&mut world, 2, 1, Message::HandOver { ballot: ballot(1, 0) });
    tell(&mut world, 0, 1, Message::HandOver { ballot: ballot(0, 0) });
    assert_eq!(world.replica(1).role(), RoleName::Follower);
    tell(&mut world, 0, 1, Message::HandOver { ballot: ballot(1, 0) });
    assert_eq!(world.replica(1).role(), RoleName::Candidate);
    assert_eq!(world.replica(1).promised(), ballot(2, 1));
}

#[test]
fn a_follower_that_waits_for_a_snapshot_is_asked_once_a_heartbeat() {
    let mut world = led();
    world.crash(2);
    world.propose(0, "two");
    world.deliver_all();
    let position = world.replica(0).decided();
    world.turn(0, vec![Input::SnapshotTaken { position, keep: 0 }]);
    world.nodes[2].disk = Disk::founded(3);
    world.disks_whole = false;
    world.start(2);
    world.tick_only(0, HEARTBEAT * 5);
    let mut delivered = 0;
    while let Some(envelope) = world.network.pop_front() {
        world.deliver(envelope);
        delivered += 1;
        assert!(delivered < 20, "they never stop talking");
    }
    assert!(world.nodes[0].owes.contains(&2));
}

#[test]
fn a_follower_that_is_far_behind_gets_no_more_in_a_turn_than_a_turns_share() {
    let mut world = led();
    world.crash(2);
    let kilobyte = "x".repeat(1024);
    for _ in 0..3 * FOLLOWER_TURN_BYTES_TARGET / 1024 {
        world.propose(0, &kilobyte);
        world.deliver_all();
    }
    let sent = |world: &mut World| -> usize {
        let entries = said(world, 0).into_iter().map(|message| match message {
            Message::Accept { entries, .. } => entries.iter().map(Entry::weight).sum(),
            _ => 0,
        });
        entries.sum()
    };
    sent(&mut world);
    // It says where its log ends.
    let (of, last) = (ballot(1, 0), world.replica(0).log().last());
    let asks = Message::Mismatch { ballot: of, previous: last, last: Position(1), decided: Position(1) };
    let agreed = Message::Accepted { ballot: of, last: Position(1) };
    let from = NodeId(2);
    let inputs = [asks, agreed].map(|message| Input::Message { from, message });
    world.turn(0, inputs.into_iter().chain([Input::Flush, Input::Flush]).collect());
    let share = FOLLOWER_TURN_BYTES_TARGET..FOLLOWER_TURN_BYTES_TARGET + 4096;
    let first = sent(&mut world);
    assert!(share.contains(&first), "{first} bytes in one turn");
    world.turn(0, vec![Input::Tick]);
    let second = sent(&mut world);
    assert!(share.contains(&second), "{second} bytes in the next");
}

/// It may be deposed by a leader that cannot reach it. Any replica that it reaches tells it so, though it has nothing to say to that one.
#[test]
fn a_leader_that_speaks_to_nobody_asks_who_does_not_rest_under_its_ballot() {
    let mut world = led();
    world.run(Duration::from_millis(500));
    said(&mut world, 0);
    world.tick(HEARTBEAT * 10);
    assert_eq!(said(&mut world, 0), [], "both rest");
    let last = world.replica(0).log().last();
    let peer = NodeId(2);
    let follows_another = Input::Peer { peer, up: true, leads: None, rests: Some((ballot(2, 1), last)) };
    world.turn(0, vec![follows_another]);
    assert!(matches!(said(&mut world, 0)[..], [Message::Accept { .. }]), "it is spoken to");
    world.turn(0, vec![Input::Message { from: peer, message: Message::Refuse { promised: ballot(2, 1) } }]);
    assert_eq!(world.replica(0).leads(), None);
}

#[test]
fn the_log_kept_behind_a_snapshot_is_bounded_by_entries_and_by_bytes() {
    let mut world = led();
    let large = "x".repeat(base::limits::LOG_BYTES_KEPT as usize / 2 + 1);
    for text in ["a", &large, &large, "b", "c"] {
        world.propose(0, text);
        world.deliver_all();
    }
    let position = world.replica(0).decided();
    world.turn(0, vec![Input::SnapshotTaken { position, keep: 1000 }]);
    assert_eq!(world.replica(0).log().last().0 - world.replica(0).log().base().0, 3, "both large ones are too much");
    world.turn(0, vec![Input::SnapshotTaken { position, keep: 1 }]);
    assert_eq!(world.replica(0).log().last().0 - world.replica(0).log().base().0, 1);
}

/// An entry is on the disk as soon as its own record is: a snapshot that was installed meanwhile, and whose record is not there yet, takes nothing from it.
#[test]
fn what_is_acknowledged_behind_an_installed_snapshot_is_known_to_be_on_disk() {
    let mut world = led();
    world.nodes[1].fast = false;
    tell(&mut world, 0, 1, accept(ballot(1, 0), "x"));
    let next = Message::Accept {
        ballot: ballot(1, 0),
        previous: Position(2),
        previous_ballot: ballot(1, 0),
        entries: vec![entry(ballot(1, 0), "y")],
        decided: Position(1),
    };
    tell(&mut world, 0, 1, next);
    let install = Input::SnapshotInstalled { position: Position(2), ballot: ballot(1, 0), members: None };
    world.turn(1, vec![install]);
    assert_eq!((world.replica(1).log().last(), world.replica(1).persisted()), (Position(3), Position(1)));
    let batches = world.nodes[1].disk.pending.len();
    world.sync_some(1, batches - 1);
    assert_eq!(said(&mut world, 1).last(), Some(&Message::Accepted { ballot: ballot(1, 0), last: Position(3) }));
    assert_eq!(world.replica(1).persisted(), Position(3));
}

#[test]
fn an_entry_is_replaced_only_where_it_is_decided_and_stays_so_through_a_crash() {
    let mut world = led();
    world.propose(0, "a");
    world.deliver_all();
    world.nodes[1].fast = false;
    world.propose(0, "b");
    world.deliver_all();
    let decided = world.replica(1).decided();
    assert!(!world.replace(1, 1, "void"), "it opens a leadership");
    assert!(!world.replace(1, 2, ""), "nor does it become such a one");
    assert!(!world.replace(1, decided.0 + 1, "void"), "not known to be decided");
    let before = (world.replica(1).log().last(), world.replica(1).log().ballot_at(Position(2)));
    assert!(world.replace(1, 2, "void") && world.replace(0, 2, "void"));
    assert_eq!((world.replica(1).log().last(), world.replica(1).log().ballot_at(Position(2))), before);
    // Not on the disk yet.
    world.crash(1);
    world.start(1);
    assert_eq!(world.replica(1).log().get(Position(2)).map(|entry| &entry.payload[..]), Some(&b"a"[..]));
    world.nodes[1].fast = true;
    for payload in ["what is decided", "goes with what comes next"] {
        world.propose(0, payload);
        world.deliver_all();
    }
    assert!(world.replica(1).decided() >= Position(2) && world.replace(1, 2, "void"));
    world.sync(1);
    world.crash(1);
    world.start(1);
    assert_eq!(world.decided_payloads(1)[0], "void");
    // Logs that differ in it go on together, and what one lacks it gets from another as it is there.
    world.propose(0, "c");
    world.deliver_all();
    assert_eq!((world.decided_payloads(0)[0].as_str(), world.decided_payloads(2)[0].as_str()), ("void", "a"));
    assert!(world.nodes.iter().all(|node| node.fatal.is_none()));
    assert_eq!(world.replica(2).log().last(), world.replica(0).log().last());
}
