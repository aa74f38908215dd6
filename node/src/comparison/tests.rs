use base::BucketId;
use data::Tree;

use super::*;
use crate::origins::Origins;

const PARTITION: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

fn ending(digest: u64) -> Ending {
    Ending { records: 1, digest }
}

fn image() -> Image {
    Image::new(Position(3), base::Ballot::default(), &Origins::default(), &Tree::new())
}

/// Gives node 0 digests of three voters at a position; the texts of its events.
fn judge(comparison: &mut Comparison, position: u64, said: &[(u16, u64)]) -> Vec<String> {
    let name_of = |node: NodeId| format!("n{}", node.0);
    let voters = [0, 1, 2].map(NodeId);
    let mut texts = Vec::new();
    for (from, digest) in said {
        let jury = Jury { voters: &voters, me: NodeId(0), name_of: &name_of, about: "" };
        for effect in comparison.on_digest(NodeId(*from), (PARTITION, Position(position)), ending(*digest), &jury) {
            if let Effect::Event(Level::Error, text) = effect {
                texts.push(text);
            }
        }
    }
    texts
}

#[test]
fn who_is_in_the_minority_twice_in_a_row_is_rebuilt() {
    let mut comparison = Comparison::default();
    let of_me = |comparison: &Comparison| comparison.doubtful().collect::<Vec<_>>();
    assert_eq!(judge(&mut comparison, 8, &[(0, 7), (1, 7), (2, 7)]), Vec::<String>::new());
    assert!(comparison.bears(PARTITION, &[0, 1, 2].map(NodeId), NodeId(0)));
    let texts = judge(&mut comparison, 9, &[(0, 6), (1, 7), (2, 7)]);
    assert_eq!(texts, ["the state of n0 at position 9 is not that of the majority"]);
    assert_eq!(of_me(&comparison), []);
    assert_eq!(judge(&mut comparison, 9, &[(0, 6)]), Vec::<String>::new(), "said again");
    assert_eq!(judge(&mut comparison, 8, &[(0, 5)]), Vec::<String>::new(), "of an earlier comparison");
    assert_eq!(judge(&mut comparison, 11, &[(1, 7), (2, 7), (0, 8)]).len(), 1);
    assert_eq!(of_me(&comparison), [PARTITION]);
    comparison.forget(PARTITION);
    assert_eq!(of_me(&comparison), []);
    // Once, and then the same again: a mistake of the calculation.
    judge(&mut comparison, 12, &[(0, 6), (1, 7), (2, 7)]);
    judge(&mut comparison, 13, &[(0, 7), (1, 7), (2, 7)]);
    judge(&mut comparison, 14, &[(0, 6), (1, 7), (2, 7)]);
    assert_eq!(of_me(&comparison), []);
    assert_eq!(comparison.differing, 4);
}

#[test]
fn others_and_learners_are_told_of_and_not_rebuilt_here() {
    let mut comparison = Comparison::default();
    let texts = judge(&mut comparison, 9, &[(0, 7), (1, 7), (2, 6), (5, 7), (6, 1)]);
    let of = |node| format!("the state of n{node} at position 9 is not that of the majority");
    assert_eq!(texts, [of(2), of(6)]);
    assert!(!comparison.bears(PARTITION, &[0, 1, 2].map(NodeId), NodeId(0)), "n2 is not well");
    assert!(!comparison.bears(PARTITION, &[0, 1].map(NodeId), NodeId(0)), "two bear no loss");
    let texts = judge(&mut comparison, 10, &[(0, 1), (1, 2), (2, 3), (2, 3)]);
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("no majority has the same"));
    assert_eq!(comparison.doubtful().count(), 0);
}

#[test]
fn states_are_read_one_after_the_other_and_no_more_than_a_few_are_held() {
    let mut comparison = Comparison::default();
    for position in 0..STATES_MAX as u64 {
        assert!(comparison.begin(PARTITION, Position(position), image()).is_none());
    }
    assert!(matches!(comparison.begin(PARTITION, Position(9), image()), Some(Effect::Drop(_))));
    let mut told = Vec::new();
    let mut now = Time(0);
    for _ in 0..100 {
        now = now + Duration::from_secs(1);
        let Some(job) = comparison.job(now) else { break };
        assert!(comparison.job(now).is_none(), "one at a time");
        for effect in comparison.on_block(now, job.make()) {
            if let Effect::Tell(_, position, ending) = effect {
                told.push((position.0, ending));
            }
        }
    }
    assert_eq!(told.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(told.iter().all(|(_, ending)| *ending == told[0].1));
    // A block that is away when the replica begins anew tells nothing when it comes back.
    comparison.begin(PARTITION, Position(10), image());
    let job = comparison.job(now).expect("a block");
    comparison.forget(PARTITION);
    assert!(matches!(comparison.on_block(now, job.make())[..], [Effect::Drop(_)]));
}

#[test]
fn a_leader_proposes_for_each_of_its_partitions_in_turn_if_there_is_news() {
    let mut comparison = Comparison::default();
    let every = Duration::from_secs(10);
    let id = |index| PartitionId { bucket: BucketId(1), index };
    let at = |seconds: u64| Time(seconds * 1_000_000_000);
    let led = |applied: [u64; 2]| [(id(0), Position(applied[0])), (id(1), Position(applied[1]))].into_iter();
    assert_eq!(comparison.next(at(20), every, led([5, 7])), Some(id(0)));
    assert_eq!(comparison.next(at(21), every, led([6, 7])), None, "too soon");
    assert_eq!(comparison.next(at(25), every, led([6, 7])), Some(id(1)));
    assert_eq!(comparison.next(at(30), every, led([6, 8])), None, "nothing but comparisons");
    assert_eq!(comparison.next(at(35), every, led([7, 8])), Some(id(0)));
    assert_eq!(comparison.next(at(45), every, std::iter::empty()), None);
}
