//! Stored keys of partitions of which this node has no state: a node that has one tells them, a part at a time, as a walk of its own would.
//!
//! A subscriber is told all changes of the keys that it has been told, up to the revision of a part, then the part; so a part and the changes behind it leave nothing out, wherever it
//! comes from (`walk.rs`). While a part is asked for, the subscriber is told nothing of the partition, so no part comes from before its place.
//!
//! The node that tells a part keeps nothing of the walk: the question says what is wanted, and from which key on. It walks within the budget that its own walks have.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{NodeId, PartitionId, Revision, Time};
use data::Blob;

use super::feeds::{REVISION_MAX, SILENT};
use super::filter::Filter;
use super::frames;
use super::walk::{Ends, Fetch, Outcome, Page, Walk};
use super::{NoRoom, Reason, Sink, States, SubscriptionId, Subscriptions, Told};

/// Words are read anew with each question: more of them are for nodes with a state.
pub(crate) const PATTERNS_MAX: usize = 64;
/// The same in bytes.
const WORDS_BYTES_MAX: usize = 64 << 10;
/// A page is so many times as long as a part of a walk here: it has a way to go.
const PAGE_PARTS: u64 = 10;
/// Units of work that reading a word costs.
const WORD_WORK: u64 = 20;
/// Parts that this node waits for.
const ASKED_MAX: usize = 64;
/// Questions that wait for their turn; the next ones are dropped, and asked again by those who wait.
const WANTED_MAX: usize = 1024;

/// "Tell me stored keys."
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PageQuestion {
    /// Under which number.
    pub ticket: u64,
    /// Not as they were before this.
    pub from: Revision,
    /// Behind this key.
    pub after: Option<Blob>,
    /// Into how many partitions the bucket is divided.
    pub partitions: u16,
    pub with_values: bool,
    pub filter: Filter,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Those that this node waits for, and since when.
    asked: BTreeMap<u64, (SubscriptionId, PartitionId, Time)>,
    questions: Vec<Asked>,
    /// Those that others want.
    wanted: VecDeque<(Asked, Time)>,
    answers: Vec<(NodeId, PartitionId, u64, Page)>,
}

/// A question with the other node, the one that is asked or the one that asks.
type Asked = (NodeId, PartitionId, PageQuestion);

impl Pages {
    /// Others wait for parts.
    pub(super) fn are_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// A node wants a part. False if too many do.
    pub(super) fn want(&mut self, asked: Asked, now: Time) -> bool {
        let has_room = self.wanted.len() < WANTED_MAX;
        if has_room {
            self.wanted.push_back((asked, now));
        }
        has_room
    }

    /// Questions that are to be sent.
    pub(super) fn take_questions(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.questions)
    }

    /// Answers that are to be sent, each with its number.
    pub(super) fn take_answers(&mut self) -> Vec<(NodeId, PartitionId, u64, Page)> {
        std::mem::take(&mut self.answers)
    }
}

/// True if another node may tell the stored keys of this filter.
pub(super) fn may_be(filter: &Filter) -> bool {
    let bytes: usize = filter.words().map(|word| word.len()).sum();
    filter.patterns.len() <= PATTERNS_MAX && bytes <= WORDS_BYTES_MAX
}

impl Subscriptions {
    /// True if another node may tell the stored keys of this filter in this cluster.
    pub(super) fn is_walked_elsewhere(&self, filter: &Filter) -> bool {
        self.feeds.is_on && may_be(filter)
    }

    /// Asks for the next part for a place. False if that cannot be now.
    pub(super) fn ask_page(&mut self, (id, partition): (SubscriptionId, PartitionId)) -> bool {
        let Some(source) = self.feeds.source(partition).filter(|_| self.feeds.pages.asked.len() < ASKED_MAX) else {
            return false;
        };
        let ticket = self.feeds.number();
        let Some(subscription) = self.all.get_mut(&id) else { return false };
        let (partitions, with_values) = (subscription.partitions, subscription.with_values);
        let filter = Filter::clone(&subscription.filter);
        let Some(place) = subscription.place_mut(partition) else { return false };
        let from = place.at;
        let Some(walk) = place.walk.as_mut() else { return false };
        walk.fetch = Fetch::Asked(ticket);
        let question = PageQuestion { ticket, from, after: walk.last().cloned(), partitions, with_values, filter };
        self.feeds.pages.asked.insert(ticket, (id, partition, self.now));
        self.feeds.pages.questions.push((source, partition, question));
        true
    }

    /// A part has come. False if nobody waits for it.
    pub(crate) fn take_page(&mut self, partition: PartitionId, ticket: u64, page: Page) -> bool {
        let Some((id, of, _)) = self.feeds.pages.asked.remove(&ticket) else { return false };
        let place = self.all.get_mut(&id).and_then(|subscription| subscription.place_mut(of));
        let Some(place) = place.filter(|_| of == partition) else { return false };
        let Some(walk) = place.walk.as_mut().filter(|walk| matches!(walk.fetch, Fetch::Asked(it) if it == ticket))
        else {
            return false;
        };
        walk.fetch = if page.revision >= place.at && page.revision.0 <= REVISION_MAX {
            Fetch::Got(Box::new(page))
        } else {
            Fetch::Idle
        };
        self.waiting.behind.push_back((id, partition));
        true
    }

    /// A tick: parts that do not come are asked for anew, perhaps of another node.
    pub(super) fn give_up_pages(&mut self) {
        let now = self.now;
        let late = |(_, (_, _, asked)): &(&u64, &(SubscriptionId, PartitionId, Time))| now.since(*asked) >= SILENT;
        let late: Vec<u64> = self.feeds.pages.asked.iter().filter(late).map(|(ticket, _)| *ticket).collect();
        for ticket in late {
            let Some((id, partition, _)) = self.feeds.pages.asked.remove(&ticket) else { continue };
            let place = self.all.get_mut(&id).and_then(|subscription| subscription.place_mut(partition));
            let Some(walk) = place.and_then(|place| place.walk.as_mut()) else { continue };
            if matches!(walk.fetch, Fetch::Asked(it) if it == ticket) {
                walk.fetch = Fetch::Idle;
                self.waiting.behind.push_back((id, partition));
            }
        }
    }

    /// Tells a subscription the part that has come, or what is left of it. Its place is at `at`.
    pub(super) fn tell_page(
        &mut self,
        (id, partition): (SubscriptionId, PartitionId),
        at: Revision,
        sink: &mut impl Sink,
        told: &mut Told,
    ) -> Outcome {
        let Some(subscription) = self.all.get_mut(&id) else { return Outcome::More };
        let connection = subscription.connection;
        let Some(place) = subscription.place_mut(partition) else { return Outcome::More };
        let Some(walk) = place.walk.as_mut() else { return Outcome::AtEnd };
        let Fetch::Got(page) = std::mem::take(&mut walk.fetch) else { return Outcome::More };
        if page.revision != at {
            return Outcome::More;
        }
        let mut refused = None;
        for stored in &page.stored {
            if told.is_enough() {
                refused = Some(NoRoom::NextTurn);
                break;
            }
            match sink.protocol(connection) {
                Ok(protocol) => {
                    told.send(sink, connection, [&frames::state(protocol, id, partition, stored), &[]]);
                    told.keys += 1;
                }
                Err(why) => {
                    refused = Some(why);
                    break;
                }
            }
            walk.come_to(Some(&stored.key));
        }
        if let Some(why) = refused {
            // The rest is asked for anew: a part that waits for a slow reader would grow old here.
            place.was_full |= why == NoRoom::Full;
            return Outcome::Refused(why);
        }
        walk.come_to(page.last.as_ref());
        match page.ends {
            Ends::More => Outcome::More,
            Ends::AtEnd => {
                (place.walk, place.is_walked) = (None, true);
                told.walked += 1;
                Outcome::AtEnd
            }
            Ends::Undecided => {
                place.gap = Some(Reason::PatternTooCostly);
                Outcome::Undecided
            }
        }
    }

    /// Walks for others, as far as the budget of walks goes.
    pub(super) fn walk_for_others(&mut self, states: &impl States, until: i64) {
        while self.walk_left > until {
            let Some(((peer, partition, question), came)) = self.feeds.pages.wanted.pop_front() else { return };
            let PageQuestion { ticket, from, after, partitions, with_values, filter } = question;
            let reading = WORD_WORK * filter.words_count() as u64;
            self.walk_left = self.walk_left.saturating_sub_unsigned(reading);
            if self.now.since(came) >= SILENT {
                continue;
            }
            // The node that waits asks again.
            let Some(tree) = states.tree(partition).filter(|tree| tree.revision() >= from) else { continue };
            let most = self.settings.walk_work.saturating_mul(PAGE_PARTS);
            let work_max = most.min(u64::try_from(self.walk_left).unwrap_or(0));
            let mut walk = Walk::behind(&filter, partition, partitions, after.as_ref());
            let (page, work) = walk.page(tree, &filter, with_values, work_max);
            self.walk_left = self.walk_left.saturating_sub_unsigned(work.max(1));
            self.feeds.pages.answers.push((peer, partition, ticket, page));
        }
    }

    /// The words of a filter, as a question has them.
    pub(crate) fn filter_of(all: bool, keys: Vec<Blob>, prefixes: Vec<Blob>, patterns: &[Blob]) -> Filter {
        let mut filter = Filter { all, ..Filter::default() };
        filter.keys.extend(keys);
        prefixes.into_iter().for_each(|prefix| filter.add_prefix(prefix));
        filter.patterns = patterns.iter().map(|text| Arc::new(super::filter::Pattern::new(text))).collect();
        filter.sort_keys();
        filter
    }
}
