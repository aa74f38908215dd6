//! The cluster as one node sees it, for `dictum status` and the metrics.

use std::fmt::Write;

use crate::door::DiskRoom;
use crate::group::DEFAULT_PARTITION;
use crate::node::{Node, news_of, place_of, role_number, role_text};
use crate::pace::Part;
use crate::peer::{PartitionNews, Ping};

/// A JSON object; its form is in docs/status.md.
pub(crate) fn json(node: &Node) -> String {
    let partition = DEFAULT_PARTITION;
    let leader = node.leader(partition);
    let leader_name = leader.map_or("null".to_owned(), |(id, _)| text(&node.name_of(id)));
    let ballot = leader.map_or("null".to_owned(), |(_, ballot)| text(&ballot.to_string()));
    let mut out = String::new();
    let names: Vec<String> = node.roll.iter().map(|(_, member)| text(&member.name)).collect();
    let me = node.config.me;
    let _ = write!(
        out,
        "{{\"version\":{},\"node\":{},\"refuses\":{},\"cluster\":[{}],\"leader\":{leader_name},\"ballot\":{ballot},\"partitions\":[",
        text(env!("CARGO_PKG_VERSION")),
        text(&node.name_of(me)),
        text(&refuses(node)),
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
            "{{\"bucket\":{},\"index\":{},\"name\":{},\"role\":\"{}\",\"leader\":{name},\"ballot\":{ballot}}}",
            group.id().bucket.0,
            group.id().index,
            text(group.name()),
            role_text(role_number(group.partition.replica.role())),
        );
    }
    out.push_str("],\"stepped_over\":[");
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
        member_json(&mut out, (ping, room), ping.and_then(|ping| news_of(ping, partition)), decided);
        let _ = write!(out, ",\"seen_ms_ago\":{}}}", seen.map_or("null".to_owned(), |seen| seen.to_string()));
    }
    out.push_str("]}");
    out
}

/// Why writes to the default bucket that may make it larger are refused at this node, for want of room on a disk; empty if they are not.
fn refuses(node: &Node) -> String {
    let failure = place_of(&node.groups, DEFAULT_PARTITION).and_then(|g| node.refusal_of_disks(g, true));
    failure.map_or_else(String::new, |failure| failure.to_string())
}

fn member_json(
    out: &mut String,
    (ping, room): (Option<&Ping>, Option<DiskRoom>),
    news: Option<&PartitionNews>,
    decided: u64,
) {
    let string = |value: Option<&String>| text(value.map_or("", String::as_str));
    let (disk, missing) = room.map_or(("unknown", 0), |room| (room.name(), room.missing()));
    let slow = ping.and_then(|ping| ping.pace.slow).map_or("no", Part::name);
    let role = news.map_or("unknown", |news| role_text(news.role));
    let number = |get: fn(&PartitionNews) -> u64| news.map_or(0, get);
    let applied = number(|news| news.applied.0);
    let _ = write!(
        out,
        "\"role\":\"{role}\",\"resp\":{},\"http\":{},\"decided\":{},\"persisted\":{},\"applied\":{applied},\
         \"lag\":{},\"disk\":\"{disk}\",\"disk_missing\":{missing},\"slow\":\"{slow}\",\"version\":{}",
        string(ping.map(|ping| &ping.resp_address)),
        string(ping.map(|ping| &ping.http_address)),
        number(|news| news.decided.0),
        number(|news| news.persisted.0),
        decided.saturating_sub(applied),
        string(ping.map(|ping| &ping.version)),
    );
}

/// Up to where the log is decided, as far as this node has heard from anybody.
fn decided_anywhere(node: &Node) -> u64 {
    let heard = node.news.values().filter_map(|ping| news_of(ping, DEFAULT_PARTITION)).map(|news| news.decided.0);
    heard.fold(node.default_group().partition.replica.decided().0, u64::max)
}

/// Decided entries that this node has not applied.
pub(crate) fn lag(node: &Node) -> u64 {
    decided_anywhere(node).saturating_sub(node.default_group().partition.applied.0)
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
