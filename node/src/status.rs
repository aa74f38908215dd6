//! The cluster as one node sees it, for `dictum status` and the metrics.

use std::collections::BTreeMap;
use std::fmt::Write;

use base::{NodeId, PartitionId, Position};
use paxos::RoleName;

use crate::borne::borne;
use crate::clock::TOLERATED;
use crate::door::DiskRoom;
use crate::group::{DEFAULT_PARTITION, Group};
use crate::node::{Node, news_of, place_of, role_text};
use crate::pace::Part;
use crate::peer::{PartitionNews, Ping};

/// A JSON object; its form is in docs/status.md.
pub(crate) fn json(node: &Node) -> String {
    // The cluster's own number: another one after an `unsafe-recover`.
    let id = |node: &Node| match node.registry.cluster {
        0 => String::new(),
        known => format!("{known:016x}"),
    };

    let partition = DEFAULT_PARTITION;
    let leader = node.leader(partition);
    let leader_name = leader.map_or("null".to_owned(), |(id, _)| text(&node.name_of(id)));
    let ballot = leader.map_or("null".to_owned(), |(_, ballot)| text(&ballot.to_string()));
    let mut out = String::new();
    let names: Vec<String> = node.roll.iter().map(|(_, member)| text(&member.name)).collect();
    let (me, borne) = (node.config.me, borne(node));
    let _ = write!(
        out,
        "{{\"version\":{},\"id\":{},\"node\":{},\"refuses\":{},\"founding\":{},\"failures_borne\":{},\"lacking\":{},\"audit_fails\":{},\"cluster\":[{}],\"leader\":{leader_name},\"ballot\":{ballot},\"partitions\":[",
        text(env!("CARGO_PKG_VERSION")),
        text(&id(node)),
        text(&node.name_of(me)),
        text(&refuses(node)),
        text(&node.awaits_founders().unwrap_or_default()),
        borne.as_ref().map_or("null".to_owned(), |borne| borne.failures.to_string()),
        text(borne.as_ref().map_or("", |borne| &borne.lacking)),
        node.audit.fails,
        names.join(","),
    );
    for (place, group) in node.groups.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        let leader = node.leader_of(place);
        let name = leader.map_or("null".to_owned(), |(id, _)| text(&node.name_of(id)));
        let ballot = leader.map_or("null".to_owned(), |(_, ballot)| text(&ballot.to_string()));
        let _ = write!(
            out,
            "{{\"bucket\":{},\"index\":{},\"name\":{},\"role\":\"{}\",\"leader\":{name},\"ballot\":{ballot},\"decided\":{},\"applied\":{}}}",
            group.id().bucket.0,
            group.id().index,
            text(group.name()),
            role_text(node.outlived.role_of(group.id(), group.partition.replica.role())),
            position(group, group.partition.replica.decided()),
            position(group, group.partition.applied),
        );
    }
    out.push_str("],\"time\":");
    time_json(&mut out, node);
    out.push_str(",\"stepped_over\":[");
    for (place, stepped) in node.registry.stepped.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let (partition, position) = (stepped.partition, stepped.position);
        let _ = write!(
            out,
            "{comma}{{\"entry\":\"{partition}@{position}\",\"checksum\":\"{:016x}\",\"at_ms\":{}}}",
            stepped.digest, stepped.at.0
        );
    }
    out.push_str("],\"step_over\":[");
    for (place, ((partition, position), waits_for)) in node.step_over.waits().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{{\"entry\":\"{partition}@{position}\",\"waits_for\":{}}}", text(waits_for));
    }
    out.push_str("],\"nodes\":[");
    let own = node.ping();
    let decided = decided_anywhere(node);
    let lag_of = |ping: Option<&Ping>| ping.and_then(|ping| worst_lag(&ping.partitions, &decided));
    for (place, (id, member)) in node.roll.iter().enumerate() {
        let detector = node.detectors.iter().find(|detector| detector.peer == id);
        let time = node.now.time;
        let up = id == me || detector.is_some_and(|detector| detector.is_up(time));
        let seen = if id == me { Some(0) } else { detector.and_then(|it| it.silence(time)).map(|it| it.as_millis()) };
        let ping = if id == me { Some(&own) } else { node.news.get(&id) };
        if place > 0 {
            out.push(',');
        }
        let _ = write!(
            out,
            "{{\"name\":{},\"me\":{},\"up\":{up},\"peer\":{},",
            text(&member.name),
            id == me,
            text(&member.peer_address)
        );
        let room = ping.map(|_| node.room_of(id));
        let news = ping.and_then(|ping| news_of(ping, partition)).filter(|news| has_copy(news));
        member_json(&mut out, (ping, room), news, lag_of(ping));
        let ahead = if id == me { Some(0) } else { node.clock.offset_ms(id) };
        let clock = match (ping, ahead) {
            (Some(ping), _) if ping.clock.is_outside => "outside",
            (_, Some(_)) => "ok",
            _ => "unknown",
        };
        let link = match node.links.get(&id).filter(|_| is_up(node, id)) {
            Some(terms) if terms.is_secured => "tls",
            Some(_) => "plain",
            None => "",
        };
        let ahead = ahead.map_or("null".to_owned(), |ahead| ahead.to_string());
        let seen = seen.map_or("null".to_owned(), |seen| seen.to_string());
        let _ = write!(
            out,
            ",\"link\":\"{link}\",\"clock\":\"{clock}\",\"clock_ahead_ms\":{ahead},\"seen_ms_ago\":{seen}}}"
        );
    }
    out.push_str("]}");
    out
}

/// A position of a partition's log; none where this node has nothing of it.
fn position(group: &Group, position: Position) -> String {
    if group.elsewhere.is_some() { "null".to_owned() } else { position.0.to_string() }
}

impl Node {
    /// True if this node can answer reads and writes of the default bucket now, as far as it knows; disks left aside.
    #[must_use]
    pub fn serves(&self) -> bool {
        hindrance(self).is_none()
    }

    /// One line for people: what this node is in the default bucket, and what keeps it from serving, if anything does.
    #[must_use]
    pub fn status_line(&self) -> String {
        if self.is_removed() {
            return "removed from the cluster".to_owned();
        }
        let group = self.default_group();
        let me = self.config.me;
        let mut line = match (hindrance(self), self.leader(DEFAULT_PARTITION)) {
            (Some(hindrance), _) => hindrance,
            (None, Some((leader, _))) if leader == me => "leader".to_owned(),
            (None, Some((leader, _))) if group.is_bare() => format!("without a copy; {} leads", self.name_of(leader)),
            (None, Some((leader, _))) => format!("follower of {}", self.name_of(leader)),
            (None, None) => String::new(),
        };
        let up = self.roll.iter().filter(|(id, _)| is_up(self, *id)).count();
        let _ = write!(line, "; {up} of {} nodes up", self.roll.len());
        if self.groups.len() > 2 {
            let led = (0..self.groups.len()).filter(|g| self.leader_of(*g).is_some_and(|(id, _)| id == me));
            let _ = write!(line, "; leads {} of {} partitions", led.count(), self.groups.len());
        }
        let refuses = refuses(self);
        if !refuses.is_empty() {
            let _ = write!(line, "; {refuses}");
        }
        line
    }
}

/// The reason why this node does not serve the default bucket, disks left aside; none if it does.
fn hindrance(node: &Node) -> Option<String> {
    if let Some(founding) = node.awaits_founders() {
        return Some(founding);
    }
    let group = node.default_group();
    if !group.is_bare() && group.partition.replica.role() == RoleName::Recovering {
        return Some("recovers what it missed, and does not serve yet".to_owned());
    }
    match node.leader(DEFAULT_PARTITION) {
        None => Some("knows no leader with a majority".to_owned()),
        Some((leader, _)) if !is_up(node, leader) => Some(format!("cannot reach the leader {}", node.name_of(leader))),
        Some(_) => None,
    }
}

/// True if a node is up, as far as this one knows.
fn is_up(node: &Node, id: NodeId) -> bool {
    let is_heard = || node.detectors.iter().any(|detector| detector.peer == id && detector.is_up(node.now.time));
    id == node.config.me || is_heard()
}

/// Why writes to the default bucket that may make it larger are refused at this node, for want of room on a disk; empty if they are not.
fn refuses(node: &Node) -> String {
    let failure = place_of(&node.groups, DEFAULT_PARTITION).and_then(|g| node.refusal_of_disks(g, true));
    failure.map_or_else(String::new, |failure| failure.to_string())
}

/// The cluster's time: what it is, where it comes from, how far a majority's clocks are ahead of it, and how far a log is.
fn time_json(out: &mut String, node: &Node) {
    let time = node.clock.now();
    let _ = write!(
        out,
        "{{\"ms\":{},\"source\":\"{}\",\"agreed\":{},\"majority_ahead_ms\":{},\"log_ahead_ms\":{}}}",
        time.map_or("null".to_owned(), |time| time.0.to_string()),
        node.clock.source().name(),
        node.clock.is_agreed(),
        node.clock.ahead_ms(),
        log_ahead_ms(node),
    );
}

/// By how many milliseconds the log of a partition that this node has is ahead of the cluster's time, beyond what clocks may differ by; 0 if it knows no time.
pub(crate) fn log_ahead_ms(node: &Node) -> u64 {
    let (time, log) = (node.clock.now(), node.log_time());
    let ahead = time.map_or(0, |time| log.0.saturating_sub(time.0));
    if u128::from(ahead) > 2 * TOLERATED.as_millis() { ahead } else { 0 }
}

fn member_json(
    out: &mut String,
    (ping, room): (Option<&Ping>, Option<DiskRoom>),
    news: Option<&PartitionNews>,
    lag: Option<u64>,
) {
    let string = |value: Option<&String>| text(value.map_or("", String::as_str));
    let (disk, missing) = room.map_or(("unknown", 0), |room| (room.name(), room.missing()));
    let slow = ping.and_then(|ping| ping.pace.slow).map_or("no", Part::name);
    let role = match (ping, news) {
        (_, Some(news)) => role_text(news.role),
        (Some(_), None) => "none",
        (None, None) => "unknown",
    };
    let number = |number: Option<u64>| number.map_or("null".to_owned(), |number| number.to_string());
    let _ = write!(
        out,
        "\"role\":\"{role}\",\"resp\":{},\"http\":{},\"decided\":{},\"persisted\":{},\"applied\":{},\
         \"lag\":{},\"disk\":\"{disk}\",\"disk_missing\":{missing},\"slow\":\"{slow}\",\"version\":{}",
        string(ping.map(|ping| &ping.resp_address)),
        string(ping.map(|ping| &ping.http_address)),
        number(news.map(|news| news.decided.0)),
        number(news.map(|news| news.persisted.0)),
        number(news.map(|news| news.applied.0)),
        number(lag),
        string(ping.map(|ping| &ping.version)),
    );
}

/// Whether a node has something of a partition. One that only carries commands for it to others has nothing of its log.
fn has_copy(news: &PartitionNews) -> bool {
    news.decided.0 > 0 || news.applied.0 > 0
}

/// Up to where each log is decided, as far as this node has heard from anybody.
fn decided_anywhere(node: &Node) -> BTreeMap<PartitionId, u64> {
    let own = node.groups.iter().map(|group| (group.id(), group.partition.replica.decided().0));
    let heard = node.news.values().flat_map(|ping| &ping.partitions).map(|news| (news.partition, news.decided.0));
    let mut decided = BTreeMap::new();
    for (partition, position) in own.chain(heard) {
        let most = decided.entry(partition).or_insert(0);
        *most = position.max(*most);
    }
    decided
}

/// Of the partitions of which a node has a copy, how many decided entries it has not applied in the one where it is furthest behind. None if it has none.
fn worst_lag(partitions: &[PartitionNews], decided: &BTreeMap<PartitionId, u64>) -> Option<u64> {
    let lag = |news: &PartitionNews| decided.get(&news.partition).map_or(0, |most| most.saturating_sub(news.applied.0));
    partitions.iter().filter(|news| has_copy(news)).map(lag).max()
}

/// The same of this node.
pub(crate) fn lag(node: &Node) -> u64 {
    worst_lag(&node.ping().partitions, &decided_anywhere(node)).unwrap_or(0)
}

/// A JSON string.
pub(crate) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for letter in value.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if (control as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
