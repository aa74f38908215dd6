//! A way over one entry: for the fault that nobody has thought of.
//!
//! An entry whose application kills or hangs a node does so on every replica, and again at each start: the log repeats it for ever. An operator starts all nodes with
//! `--step-over PARTITION@POSITION`, and this part sees to it that all replicas leave the same entry out, or none does.
//!
//! 1. A node that was told *holds*: it applies nothing of that partition from that position on. Everything else goes on.
//! 2. Nodes that hold tell each other how they stand ([`Stand`]), about once a second. Once every node of the cluster holds before the same entry (by its checksum), or has
//!    no replica of the partition, each replaces the entry in its own log and journal by one without effect ([`void`]). That is no word about the state yet.
//! 3. Once every node of the cluster says that its disk has the void, each applies it and goes on. That it did is in the state (`origins.rs`), so it can be told for ever
//!    which way a state went.
//!
//! Why two rounds: a node that loses its flag between them (a crash, an operator who starts it without) finds the void in its journal and holds at that. Had it none yet, it
//! applies the entry itself, says so ([`Stand::Kept`]), and the others, who have not applied the void, put the entry back. So no replica applies the void while another
//! may still apply the entry. What a node says counts as long as the link lasts on which it was said: a node that starts again may stand otherwise.
//!
//! A node without a replica may get one at any moment, from a node that has not replaced the entry yet. It remembers in memory that it was asked, and holds
//! as soon as it has a replica. Should it start again it remembers nothing; so its word counts for the second round only if it was asked by a node that knew of all others that
//! they have the void on their disks: from then on nobody can give it the entry. A node that has joined unknown to the one that asks is found out by the checksum of
//! the members, which each node sends along.
//!
//! Why so, and what else was thought of: docs/decisions/2026-11-27-step-over.md.

mod glue;
mod stand;
pub(crate) mod void;

use std::collections::BTreeMap;
use std::time::Duration;

use base::limits::STEP_OVERS_MAX;
use base::{NodeId, PartitionId, Position, Time};

pub(crate) use stand::{Said, Stand};
use void::digest_of_members;

/// How often nodes that hold ask each other.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// An entry, by its place.
pub(crate) type Place = (PartitionId, Position);

/// Why this node does not just apply an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// Its operator said so.
    Told,
    /// Another node has asked, and this one had no replica.
    Asked,
    /// Its log has the void there, or the council's registry says that it was stepped over.
    Found,
}

/// What another node has said last, on the link that there is now.
#[derive(Clone, Copy, Debug)]
struct Heard {
    stand: Stand,
    members: u64,
    /// It is the answer to a question of this node, when this one knew that all others have the void on their disks.
    all_voided: bool,
}

/// What has become of a wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    /// All nodes have the void: it may be applied.
    Agreed,
    /// Nothing more is to be done.
    Over,
}

/// An entry that is to be stepped over.
#[derive(Debug)]
struct Wish {
    why: Why,
    phase: Phase,
    heard: BTreeMap<NodeId, Heard>,
    /// A node that has said that it has applied the entry. It may have answered a client, and a restart may make it forget that it did.
    kept_by: Option<NodeId>,
    /// When the others were last asked, and as who.
    asked: Option<(Time, Stand, bool)>,
    /// What it waits for, in the words that the operator was last told.
    waits_for: String,
    /// Nothing is to be looked at before something happens.
    rests: bool,
    /// The operator was told that it is done.
    is_told_done: bool,
    /// When the council was last told of it.
    council_told: Option<Time>,
}

/// What this part is given.
pub(crate) struct Context<'a> {
    pub now: Time,
    pub me: NodeId,
    /// All nodes of the cluster.
    pub members: &'a [NodeId],
    pub name_of: &'a dyn Fn(NodeId) -> String,
    /// Whether all nodes understand a void.
    pub may_write: bool,
    /// The checksum of the entry that was stepped over there, by the council's registry.
    pub registered: Option<u64>,
    /// A planted bug: nobody else is asked.
    pub asks_nobody: bool,
}

/// What this part wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Send(NodeId, Said),
    /// The void takes the entry's place in this node's log.
    Replace(Place),
    /// The entry takes its place again.
    PutBack(Place),
    /// The void may be applied, or there is nothing to hold for any more.
    LetGo(Place, Option<u64>),
    /// The council's registry does not have it yet.
    TellCouncil(Place, u64),
    Warning(String),
    Error(String),
    Probe(&'static str),
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct StepOver {
    wishes: BTreeMap<Place, Wish>,
}

/// Where an entry stands, for people: as `--step-over` takes it.
pub(crate) fn words_of((partition, position): Place) -> String {
    format!("{partition}@{position}")
}

fn has_applied(name: &str, place: &str) -> String {
    format!(
        "{name} has applied the entry already, so it cannot be stepped over: stop all nodes, and start them again without --step-over {place}"
    )
}

impl Wish {
    fn is_active(&self) -> bool {
        self.phase != Phase::Over && !self.rests
    }

    fn new(why: Why) -> Wish {
        let (heard, waits_for) = (BTreeMap::new(), String::new());
        Wish {
            why,
            phase: Phase::Open,
            heard,
            kept_by: None,
            asked: None,
            waits_for,
            rests: false,
            is_told_done: false,
            council_told: None,
        }
    }

    /// Whether every other node with a replica says that the void is on its disk.
    fn all_voided(&self, digest: u64, context: &Context<'_>) -> bool {
        let members = digest_of_members(context.members);
        context.others().all(|id| match self.heard.get(&id) {
            Some(Heard { stand: Stand::Voided(other), members: known, .. }) => *other == digest && *known == members,
            Some(heard) => heard.stand == Stand::NoReplica,
            None => false,
        })
    }

    /// And whether those without a replica cannot get the entry any more.
    fn all_agree(&self, digest: u64, context: &Context<'_>) -> bool {
        let is_sure = |heard: &Heard| heard.stand != Stand::NoReplica || heard.all_voided;
        self.all_voided(digest, context) && context.others().all(|id| self.heard.get(&id).is_some_and(is_sure))
    }

    fn has_heard(&self, stand: Stand) -> bool {
        self.heard.values().any(|heard| heard.stand == stand)
    }

    /// Who keeps this node from going on, in words; empty: nobody.
    fn missing(&self, place: Place, digest: u64, is_voided: bool, context: &Context<'_>) -> String {
        let mut missing = Vec::new();
        for id in context.others() {
            let name = (context.name_of)(id);
            let place = words_of(place);
            let has_kept = !is_voided && self.kept_by == Some(id);
            match self.heard.get(&id).map(|heard| heard.stand).filter(|_| !has_kept) {
                None if has_kept => missing.push(has_applied(&name, &place)),
                None => missing.push(format!("{name} has said nothing yet: start it with --step-over {place} (or remove it from the cluster, if it is gone for good)")),
                Some(Stand::NotTold) => missing.push(format!("{name} was started without --step-over {place}: start it again with that")),
                Some(Stand::Waits) => missing.push(format!("{name} has not come so far yet: this goes on by itself")),
                Some(Stand::Kept | Stand::Passed) => missing.push(has_applied(&name, &place)),
                Some(Stand::Unfit) => missing.push(format!("{name} says that it is an entry that cannot be stepped over: start all nodes again without --step-over {place}")),
                Some(Stand::Holds(other) | Stand::Voided(other) | Stand::Done(other)) if other != digest => {
                    missing.push(format!("{name} has another entry there; this is a bug"));
                }
                Some(Stand::Holds(_)) if is_voided => missing.push(format!("{name} has not replaced the entry yet: this goes on by itself")),
                Some(Stand::NoReplica) if is_voided && self.all_voided(digest, context) => {}
                Some(Stand::Holds(_) | Stand::Voided(_) | Stand::Done(_) | Stand::NoReplica) => {}
            }
        }
        missing.join("; ")
    }

    /// The operator is told once what it waits for.
    fn tell(&mut self, place: Place, waits_for: String, effects: &mut Vec<Effect>) {
        if waits_for != self.waits_for && !waits_for.is_empty() {
            let words = words_of(place);
            effects
                .push(Effect::Warning(format!("entry {words} is not applied, and not stepped over yet: {waits_for}")));
        }
        self.waits_for = waits_for;
    }
}

impl Context<'_> {
    fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().copied().filter(|id| *id != self.me)
    }
}

impl StepOver {
    /// The operator names an entry.
    pub(crate) fn tell(&mut self, place: Place) {
        self.wishes.insert(place, Wish::new(Why::Told));
    }

    /// This node has come to an entry that was replaced, or hears that one was stepped over. Whether that is news.
    pub(crate) fn find(&mut self, place: Place) -> bool {
        // These are few, and must not be applied before all agree: the limit is for what others say.
        let is_new = !self.wishes.contains_key(&place);
        self.wishes.entry(place).or_insert_with(|| Wish::new(Why::Found));
        is_new
    }

    /// Another node asks of one of which this one has no replica. Whether it will be held.
    fn is_asked(&mut self, place: Place) -> bool {
        let has_room = self.wishes.len() < STEP_OVERS_MAX;
        if has_room {
            self.wishes.entry(place).or_insert_with(|| Wish::new(Why::Asked));
        }
        self.wishes.contains_key(&place)
    }

    /// Whether this node knows that an entry is to be stepped over.
    pub(crate) fn knows(&self, place: Place) -> bool {
        self.wishes.contains_key(&place)
    }

    /// Before which entries of a partition this node holds.
    pub(crate) fn holds(&self, partition: PartitionId) -> Vec<Position> {
        let is_open = |(place, wish): &(&Place, &Wish)| place.0 == partition && wish.phase == Phase::Open;
        self.wishes.iter().filter(is_open).map(|(place, _)| place.1).collect()
    }

    /// Whether anything is to be looked at in every tick.
    pub(crate) fn is_active(&self) -> bool {
        self.wishes.values().any(Wish::is_active)
    }

    /// What is to be looked at.
    fn active(&self) -> Vec<Place> {
        self.wishes.iter().filter(|(_, wish)| wish.is_active()).map(|(place, _)| *place).collect()
    }

    /// What it waits for, in words.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Place, &str)> {
        let waits = self.wishes.iter().filter(|(_, wish)| wish.phase == Phase::Open && !wish.waits_for.is_empty());
        waits.map(|(place, wish)| (*place, wish.waits_for.as_str()))
    }

    /// A link begins or ends: what was said on the one before may not be so any more.
    pub(crate) fn forget_peer(&mut self, peer: NodeId) {
        for wish in self.wishes.values_mut() {
            wish.heard.remove(&peer);
        }
    }

    /// Another node says how it stands, or asks; `own`: how this one does.
    pub(crate) fn on_said(&mut self, from: NodeId, said: Said, own: Stand, context: &Context<'_>) -> Vec<Effect> {
        let place = (said.partition, said.position);
        // A promise to hold is worth nothing if there is no room to remember it.
        let own = if own == Stand::NoReplica && !self.is_asked(place) { Stand::NotTold } else { own };
        if let Some(wish) = self.wishes.get_mut(&place) {
            let all_voided = said.all_voided && !said.is_question;
            if said.stand == Stand::Kept {
                wish.kept_by = Some(from);
            }
            wish.heard.insert(from, Heard { stand: said.stand, members: said.members, all_voided });
        }
        if !said.is_question {
            return Vec::new();
        }
        let answer = Said { stand: own, members: digest_of_members(context.members), is_question: false, ..said };
        vec![Effect::Send(from, answer)]
    }

    /// Looks what is to be done about an entry; `own`: how this node stands to it.
    pub(crate) fn look(&mut self, place: Place, own: Stand, context: &Context<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(wish) = self.wishes.get_mut(&place) else { return effects };
        wish.rests = matches!(own, Stand::Waits | Stand::NotTold | Stand::NoReplica);
        match own {
            Stand::Holds(digest) => wish.consider_replacing(place, digest, context, &mut effects),
            Stand::Voided(digest) => wish.consider_applying(place, digest, context, &mut effects),
            Stand::Done(digest) => wish.end_well(place, digest, context, &mut effects),
            Stand::Kept | Stand::Passed => wish.end(place, "it has been applied here already", &mut effects),
            Stand::Unfit => {
                let why = "it opens a leadership, or says who votes, or is of a version that this node does not speak";
                wish.end(place, why, &mut effects);
            }
            Stand::Waits if wish.why == Why::Told => {
                wish.tell(place, "this node has not come so far yet".to_owned(), &mut effects);
            }
            Stand::NoReplica if wish.why == Why::Told => {
                wish.tell(place, "this node has no replica of that partition".to_owned(), &mut effects);
            }
            Stand::Waits | Stand::NotTold | Stand::NoReplica => {}
        }
        effects
    }
}

impl Wish {
    fn consider_replacing(&mut self, place: Place, digest: u64, context: &Context<'_>, effects: &mut Vec<Effect>) {
        self.ask(place, (Stand::Holds(digest), false), context, effects);
        let is_settled =
            context.registered == Some(digest) || self.has_heard(Stand::Done(digest)) || context.asks_nobody;
        if !is_settled && self.why != Why::Told && self.has_heard(Stand::Kept) {
            // There was something to step over, and now there is not: no operator of this node has to say so.
            return self.end(place, "", effects);
        }
        let missing = if is_settled { String::new() } else { self.missing(place, digest, false, context) };
        if !missing.is_empty() {
            return self.tell(place, missing, effects);
        }
        if !context.may_write {
            let text = "not all nodes speak a version that knows how (dictum node list shows them): start a newer Dictum everywhere";
            return self.tell(place, text.to_owned(), effects);
        }
        effects.push(Effect::Replace(place));
    }

    fn consider_applying(&mut self, place: Place, digest: u64, context: &Context<'_>, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Agreed {
            return;
        }
        let all_voided = self.all_voided(digest, context);
        self.ask(place, (Stand::Voided(digest), all_voided), context, effects);
        let is_done = context.registered == Some(digest) || self.has_heard(Stand::Done(digest)) || context.asks_nobody;
        if is_done || self.all_agree(digest, context) {
            self.phase = Phase::Agreed;
            self.waits_for.clear();
            effects.push(Effect::LetGo(place, Some(digest)));
        } else if self.has_heard(Stand::Kept) {
            // Nobody has applied the void: for that, the node that has kept the entry would have had to have it.
            effects.push(Effect::PutBack(place));
        } else {
            let missing = self.missing(place, digest, true, context);
            self.tell(place, missing, effects);
        }
    }

    /// The void was applied here.
    fn end_well(&mut self, place: Place, digest: u64, context: &Context<'_>, effects: &mut Vec<Effect>) {
        let words = words_of(place);
        if !std::mem::replace(&mut self.is_told_done, true) {
            if self.phase == Phase::Agreed {
                effects.push(Effect::Probe("node: an entry stepped over"));
                effects.push(Effect::Error(format!(
                    "entry {words} was stepped over on all nodes, as their operators have said (checksum {digest:016x}): its command was not done. Start the nodes without --step-over from now on"
                )));
            } else if self.why == Why::Told {
                effects.push(Effect::Warning(format!(
                    "entry {words} has been stepped over before: --step-over is not needed any more"
                )));
            }
            if self.phase == Phase::Open {
                effects.push(Effect::LetGo(place, Some(digest)));
                self.phase = Phase::Agreed;
            }
            self.waits_for.clear();
        }
        if self.has_heard(Stand::Kept) {
            self.phase = Phase::Over;
            let text = "another node has applied it: the states of these nodes differ. Stop the node that has, empty its folder but for node.key, and start it again";
            effects.push(Effect::Error(format!("entry {words} was stepped over here, and {text}")));
        } else if context.registered.is_some() {
            self.phase = Phase::Over;
        } else if self.council_told.is_none_or(|told| context.now.since(told) >= crate::planner::ORDER_AGAIN_AFTER) {
            self.council_told = Some(context.now);
            effects.push(Effect::TellCouncil(place, digest));
        }
    }

    /// There is nothing to step over.
    fn end(&mut self, place: Place, why: &str, effects: &mut Vec<Effect>) {
        self.phase = Phase::Over;
        self.waits_for.clear();
        effects.push(Effect::LetGo(place, None));
        if self.why == Why::Told {
            let words = words_of(place);
            effects.push(Effect::Error(format!(
                "entry {words} cannot be stepped over: {why}. Start the nodes without --step-over {words}"
            )));
        }
    }

    fn ask(
        &mut self,
        place: Place,
        (stand, all_voided): (Stand, bool),
        context: &Context<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let is_same = |(at, as_who, knew): (Time, Stand, bool)| {
            (as_who, knew) == (stand, all_voided) && context.now.since(at) < ASK_EVERY
        };
        if self.asked.is_some_and(is_same) {
            return;
        }
        self.asked = Some((context.now, stand, all_voided));
        let (partition, position) = place;
        let members = digest_of_members(context.members);
        let said = Said { partition, position, stand, members, is_question: true, all_voided };
        effects.extend(context.others().map(|id| Effect::Send(id, said)));
    }
}

#[cfg(test)]
mod tests;
