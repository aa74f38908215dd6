//! Rules of who votes and who leads that no story tells.

mod harness;

use std::time::Duration;

use base::NodeId;
use paxos::{Input, Message, Roster};

use harness::World;

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
    let to_third = |envelope: &harness::Envelope| envelope.to == 2;
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
