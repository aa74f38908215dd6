//! What a node makes of what others say.

use super::*;

const PLACE: Place = (PartitionId { bucket: base::BucketId(3), index: 1 }, Position(9));
const ENTRY: u64 = 77;

struct World {
    part: StepOver,
    now: Time,
    members: Vec<NodeId>,
    may_write: bool,
    registered: Option<u64>,
}

impl World {
    /// The first of so many nodes, told to step over the entry.
    fn told(count: u16) -> World {
        let mut part = StepOver::default();
        part.tell(PLACE);
        let members = (0..count).map(NodeId).collect();
        World { part, now: Time(0), members, may_write: true, registered: None }
    }

    fn with<T>(&mut self, what: impl FnOnce(&mut StepOver, &Context<'_>) -> T) -> T {
        let context = Context {
            now: self.now,
            me: NodeId(0),
            members: &self.members,
            name_of: &|id| format!("n{}", id.0 + 1),
            may_write: self.may_write,
            registered: self.registered,
            asks_nobody: false,
        };
        what(&mut self.part, &context)
    }

    fn hear(&mut self, from: u16, stand: Stand) -> Vec<Effect> {
        self.hear_answer(from, stand, false)
    }

    fn hear_answer(&mut self, from: u16, stand: Stand, all_voided: bool) -> Vec<Effect> {
        let members = digest_of_members(&self.members);
        let said = Said { partition: PLACE.0, position: PLACE.1, stand, members, is_question: false, all_voided };
        self.with(|part, context| part.on_said(NodeId(from), said, Stand::Holds(ENTRY), context))
    }

    /// What it wants, without what it says.
    fn look(&mut self, own: Stand) -> Vec<Effect> {
        self.with(|part, context| part.look(PLACE, own, context))
    }

    fn wants(&mut self, own: Stand) -> Option<Effect> {
        let is_deed = |effect: &Effect| {
            matches!(effect, Effect::Replace(_) | Effect::PutBack(_) | Effect::LetGo(..) | Effect::TellCouncil(..))
        };
        self.look(own).into_iter().find(is_deed)
    }

    fn told_text(&mut self, own: Stand) -> String {
        let text = self.look(own).into_iter().find_map(|effect| match effect {
            Effect::Warning(text) | Effect::Error(text) => Some(text),
            _ => None,
        });
        text.unwrap_or_default()
    }
}

#[test]
fn an_entry_is_replaced_when_every_node_holds_before_it_and_not_before() {
    let mut world = World::told(3);
    assert_eq!(world.wants(Stand::Waits), None);
    assert_eq!(world.wants(Stand::Holds(ENTRY)), None);
    world.hear(1, Stand::Holds(ENTRY));
    assert_eq!(world.wants(Stand::Holds(ENTRY)), None, "n3 has said nothing");
    for stand in [Stand::Waits, Stand::NotTold, Stand::Passed, Stand::Unfit, Stand::Holds(ENTRY + 1)] {
        world.hear(2, stand);
        assert_eq!(world.wants(Stand::Holds(ENTRY)), None, "{stand:?}");
    }
    for stand in [Stand::Holds(ENTRY), Stand::Voided(ENTRY), Stand::Done(ENTRY), Stand::NoReplica] {
        world.hear(2, stand);
        assert_eq!(world.wants(Stand::Holds(ENTRY)), Some(Effect::Replace(PLACE)), "{stand:?}");
    }
    world.part.forget_peer(NodeId(1));
    world.hear(2, Stand::Holds(ENTRY));
    assert_eq!(world.wants(Stand::Holds(ENTRY)), None, "another process may stand otherwise");
    world.hear(1, Stand::Holds(ENTRY));
    world.may_write = false;
    assert_eq!(world.wants(Stand::Holds(ENTRY)), None, "not all nodes would understand it");
    world.may_write = true;
    world.hear(2, Stand::Kept);
    world.part.forget_peer(NodeId(2));
    world.hear(2, Stand::Holds(ENTRY));
    assert_eq!(world.wants(Stand::Holds(ENTRY)), None, "it has forgotten it, and perhaps a client has had its answer");
}

#[test]
fn a_void_is_applied_when_every_node_has_it_on_its_disk_and_not_before() {
    let mut world = World::told(3);
    let applies = Some(Effect::LetGo(PLACE, Some(ENTRY)));
    world.hear(1, Stand::Voided(ENTRY));
    world.hear(2, Stand::Holds(ENTRY));
    assert_eq!(world.wants(Stand::Voided(ENTRY)), None);
    world.hear(2, Stand::Voided(ENTRY));
    assert_eq!(world.part.holds(PLACE.0), [PLACE.1]);
    assert_eq!(world.wants(Stand::Voided(ENTRY)), applies);
    assert!(world.part.holds(PLACE.0).is_empty());
    // One word of somebody who has applied it is enough.
    let mut world = World::told(3);
    world.hear(2, Stand::Done(ENTRY));
    assert_eq!(world.wants(Stand::Voided(ENTRY)), applies);
    let mut world = World::told(3);
    world.registered = Some(ENTRY);
    assert_eq!(world.wants(Stand::Holds(ENTRY)), Some(Effect::Replace(PLACE)));
    assert_eq!(world.wants(Stand::Voided(ENTRY)), applies);
    assert_eq!(World::told(1).wants(Stand::Voided(ENTRY)), applies, "it is alone");
}

#[test]
fn the_word_of_a_node_without_a_replica_counts_when_nobody_can_give_it_the_entry() {
    let mut world = World::told(3);
    world.hear(1, Stand::NoReplica);
    world.hear(2, Stand::Holds(ENTRY));
    assert_eq!(world.wants(Stand::Holds(ENTRY)), Some(Effect::Replace(PLACE)));
    world.hear(2, Stand::Voided(ENTRY));
    let effects = world.look(Stand::Voided(ENTRY));
    let asks = |effect: &Effect| matches!(effect, Effect::Send(NodeId(1), Said { all_voided: true, .. }));
    assert!(effects.iter().any(asks), "it is asked again: {effects:?}");
    assert!(!effects.contains(&Effect::LetGo(PLACE, Some(ENTRY))));
    world.hear_answer(1, Stand::NoReplica, true);
    assert_eq!(world.wants(Stand::Voided(ENTRY)), Some(Effect::LetGo(PLACE, Some(ENTRY))));
}

#[test]
fn a_node_that_knows_other_members_is_not_counted() {
    let mut world = World::told(2);
    let said = |members: &[NodeId]| Said {
        partition: PLACE.0,
        position: PLACE.1,
        stand: Stand::Voided(ENTRY),
        members: digest_of_members(members),
        is_question: false,
        all_voided: false,
    };
    let more = [NodeId(0), NodeId(1), NodeId(2)];
    world.with(|part, context| part.on_said(NodeId(1), said(&more), Stand::Voided(ENTRY), context));
    assert_eq!(world.wants(Stand::Voided(ENTRY)), None, "it may have given the entry to the one that it knows");
    let both = [NodeId(0), NodeId(1)];
    world.with(|part, context| part.on_said(NodeId(1), said(&both), Stand::Voided(ENTRY), context));
    assert_eq!(world.wants(Stand::Voided(ENTRY)), Some(Effect::LetGo(PLACE, Some(ENTRY))));
}

#[test]
fn an_entry_that_somebody_has_applied_is_put_back() {
    let mut world = World::told(3);
    world.hear(1, Stand::Voided(ENTRY));
    world.hear(2, Stand::Kept);
    assert_eq!(world.wants(Stand::Voided(ENTRY)), Some(Effect::PutBack(PLACE)));
    // Where the operator has said so, it is for the operator to say that it shall not be.
    assert_eq!(world.wants(Stand::Holds(ENTRY)), None);
    assert!(world.part.waits().any(|(_, text)| text.contains("n3 has applied the entry already")));
    let mut found = World::told(3);
    found.part = StepOver::default();
    assert!(found.part.find(PLACE) && !found.part.find(PLACE));
    found.hear(2, Stand::Kept);
    assert_eq!(found.wants(Stand::Holds(ENTRY)), Some(Effect::LetGo(PLACE, None)));
    assert!(!found.part.is_active());
}

#[test]
fn the_operator_is_told_what_is_waited_for_and_once() {
    let mut world = World::told(3);
    world.hear(1, Stand::NotTold);
    let text = world.told_text(Stand::Holds(ENTRY));
    assert!(
        text.contains("n2 was started without --step-over 3/1@9") && text.contains("n3 has said nothing yet"),
        "{text}"
    );
    assert_eq!(world.told_text(Stand::Holds(ENTRY)), "");
    world.hear(2, Stand::Holds(ENTRY));
    assert!(world.told_text(Stand::Holds(ENTRY)).contains("n2 was started"), "it is something else now");
    assert!(World::told(3).told_text(Stand::Unfit).contains("cannot be stepped over"));
    assert!(World::told(3).told_text(Stand::Kept).contains("applied here already"));
}

#[test]
fn the_council_is_told_until_it_knows() {
    let mut world = World::told(1);
    assert_eq!(world.wants(Stand::Voided(ENTRY)), Some(Effect::LetGo(PLACE, Some(ENTRY))));
    assert!(world.told_text(Stand::Done(ENTRY)).contains("was stepped over on all nodes"));
    world.now = world.now + Duration::from_millis(100);
    assert_eq!(world.wants(Stand::Done(ENTRY)), None);
    world.now = world.now + Duration::from_secs(3);
    assert_eq!(world.wants(Stand::Done(ENTRY)), Some(Effect::TellCouncil(PLACE, ENTRY)));
    world.registered = Some(ENTRY);
    assert_eq!(world.wants(Stand::Done(ENTRY)), None);
    assert!(!world.part.is_active());
}

#[test]
fn who_is_asked_answers_and_remembers_if_it_has_room() {
    let mut world = World::told(2);
    world.part = StepOver::default();
    for position in 1..=STEP_OVERS_MAX as u64 + 1 {
        let (partition, position) = (PLACE.0, Position(position));
        let said =
            Said { partition, position, stand: Stand::Voided(1), members: 0, is_question: true, all_voided: true };
        let answers = world.with(|part, context| part.on_said(NodeId(1), said, Stand::NoReplica, context));
        let has_room = position.0 <= STEP_OVERS_MAX as u64;
        let stand = if has_room { Stand::NoReplica } else { Stand::NotTold };
        let is_so = |effect: &Effect| matches!(effect, Effect::Send(NodeId(1), answer) if answer.stand == stand && answer.all_voided && !answer.is_question);
        assert!(answers.iter().any(is_so), "{position}: {answers:?}");
        assert_eq!(world.part.knows((partition, position)), has_room);
    }
}
