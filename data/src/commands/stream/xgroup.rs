//! `XGROUP CREATE | CREATECONSUMER | DELCONSUMER | DESTROY | HELP | SETID`

use super::ids;
use crate::apply::OUT_OF_MEMORY;
use crate::commands::prelude::*;
use crate::commands::subcommand::{self, KEY};
use crate::value::StreamId;
use base::limits::KEY_BYTES_MAX;

/// Makes, changes and destroys consumer groups of a stream.
pub struct XGroup<'a> {
    key: KeyRef<'a>,
    group: &'a [u8],
    change: Change<'a>,
}

/// A last identifier; none: that of the stream.
type Last = Option<StreamId>;

enum Change<'a> {
    Create { last: Last, read: Option<u64>, makes_stream: bool },
    SetId { last: Last, read: Option<u64> },
    Destroy,
    CreateConsumer(&'a [u8]),
    DeleteConsumer(&'a [u8]),
    Help,
}

const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD entries_read]",
    "    Make a consumer group that begins behind an entry; with MKSTREAM the stream, too.",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Make a consumer of a group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove a consumer and what is pending with it.",
    "DESTROY <key> <groupname>",
    "    Remove a group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set what the group was given last.",
    "HELP",
    "    This text.",
];

const SUBCOMMANDS: &[Spec] = &[
    subcommand(
        "xgroup|create",
        -5,
        "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
        "Makes a consumer group.",
    ),
    subcommand("xgroup|createconsumer", 5, "key group consumer", "Makes a consumer of a group."),
    subcommand("xgroup|delconsumer", 5, "key group consumer", "Removes a consumer and what is pending with it."),
    subcommand("xgroup|destroy", 4, "key group", "Removes a consumer group."),
    Spec { keys: Keys::None, ..subcommand("xgroup|help", 2, "", "Describes the subcommands.") },
    subcommand(
        "xgroup|setid",
        -5,
        "key group <id | $> [ENTRIESREAD entries-read]",
        "Sets what a group was given last.",
    ),
];

const fn subcommand(name: &'static str, arity: i32, arguments: &'static str, summary: &'static str) -> Spec {
    let spec = subcommand::spec(Group::Stream, name, arity, KEY, arguments, summary);
    Spec { flags: Flags::WRITE, since: "5.0.0", ..spec }
}

/// Refuses names of groups and consumers that no store takes ([`KEY_BYTES_MAX`]).
pub(crate) fn check_names<'n>(mut names: impl Iterator<Item = &'n [u8]>) -> Result<(), Failure> {
    if names.any(|name| name.len() > KEY_BYTES_MAX) {
        return Err(Failure::built(
            format!("ERR the name of a group or a consumer is longer than {KEY_BYTES_MAX} bytes").as_bytes(),
        ));
    }
    Ok(())
}

fn wrong(args: Args<'_>) -> Failure {
    let given = args.get(1).unwrap_or_default();
    let shown = &given[..given.len().min(128)];
    let text = [b"ERR unknown subcommand or wrong number of arguments for '", shown, b"'. Try XGROUP HELP."].concat();
    Failure::built(&text)
}

/// What stands behind the group of CREATE and SETID.
fn create<'a>(args: Args<'a>, is_create: bool) -> Result<Change<'a>, Failure> {
    let (mut read, mut makes_stream, mut index) = (None, false, 5);
    while index < args.len() {
        if is_create && args.is(index, "MKSTREAM") {
            makes_stream = true;
        } else if args.is(index, "ENTRIESREAD") && index + 1 < args.len() {
            index += 1;
            read = match args.integer(index)? {
                -1 => None,
                given => Some(
                    u64::try_from(given)
                        .map_err(|_| Failure::Text("ERR value for ENTRIESREAD must be positive or -1"))?,
                ),
            };
        } else {
            return Err(wrong(args));
        }
        index += 1;
    }
    if args.len() > if is_create { 8 } else { 7 } {
        return Err(wrong(args));
    }
    let last = match args.get(4)? {
        b"$" => None,
        text if is_create => Some(ids::parse(text, 0)?),
        text => Some(ids::parse_or_end(text, 0)?),
    };
    Ok(if is_create { Change::Create { last, read, makes_stream } } else { Change::SetId { last, read } })
}

impl<'a> WriteCommand<'a> for XGroup<'a> {
    const SPEC: Spec = Spec {
        name: "xgroup",
        arity: -2,
        flags: Flags::WRITE,
        keys: KEY,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1); DELCONSUMER: O(N) where N is the number of entries pending with the consumer",
        summary: "Makes, changes and removes consumer groups of a stream.",
        arguments: "CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read] | CREATECONSUMER key group consumer | \
                    DELCONSUMER key group consumer | DESTROY key group | HELP | SETID key group <id | $> [ENTRIESREAD entries-read]",
        example: "XGROUP CREATE readings printers $ MKSTREAM",
        subcommands: SUBCOMMANDS,
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let spec = subcommand::find(&Self::SPEC, args)?;
        let change = match spec.name {
            "xgroup|create" => create(args, true)?,
            "xgroup|setid" => create(args, false)?,
            "xgroup|destroy" => Change::Destroy,
            "xgroup|createconsumer" => Change::CreateConsumer(args.get(4)?),
            "xgroup|delconsumer" => Change::DeleteConsumer(args.get(4)?),
            _ => return Ok(XGroup { key: KeyRef::new(b""), group: b"", change: Change::Help }),
        };
        let group = args.get(3)?;
        let consumer = match change {
            Change::CreateConsumer(name) | Change::DeleteConsumer(name) => name,
            _ => b"",
        };
        check_names([group, consumer].into_iter())?;
        Ok(XGroup { key: args.key(2)?, group, change })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if matches!(self.change, Change::Help) {
            return Ok(Reply::Array(HELP.iter().map(|line| Reply::Simple(line)).collect()));
        }
        if matches!(self.change, Change::Create { .. } | Change::CreateConsumer(_)) && tx.is_full() {
            return Err(OUT_OF_MEMORY);
        }
        let before = tx.stream(self.key)?;
        let makes_stream = matches!(self.change, Change::Create { makes_stream: true, .. });
        if before.is_none() && !makes_stream {
            return Err(Failure::Text(
                "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM \
                 option to create an empty stream automatically.",
            ));
        }
        let group = before.and_then(|stream| tx.tree().collections.group(&stream, self.group));
        let needs_group = !matches!(self.change, Change::Create { .. } | Change::Destroy);
        if group.is_none() && needs_group {
            return Err(ids::no_group_of_key(self.key, self.group));
        }
        let now = tx.time().0;
        let name = self.group;
        tx.edit_stream(self.key, |stream| {
            let last_id = stream.stream().last;
            match self.change {
                Change::Create { .. } if group.is_some() => {
                    Err(Failure::Text("BUSYGROUP Consumer Group name already exists"))
                }
                Change::Create { .. } if stream.stream().groups == u32::MAX => {
                    Err(Failure::Text("ERR a stream has at most 4294967295 consumer groups"))
                }
                Change::Create { last, read, .. } => {
                    stream.create_group(name, last.unwrap_or(last_id), read);
                    Ok(Reply::Ok)
                }
                Change::SetId { last, read } => {
                    stream.edit_group(name, |group| {
                        group.group.last = last.unwrap_or(last_id);
                        group.group.read = read;
                    });
                    Ok(Reply::Ok)
                }
                Change::Destroy => Ok(Reply::one_if(group.is_some() && stream.destroy_group(name))),
                Change::CreateConsumer(consumer) => {
                    let is_there = |group| stream.collections().consumer(group, consumer).is_some();
                    if group.as_ref().is_some_and(is_there) {
                        return Ok(Reply::Integer(0));
                    }
                    stream.edit_group(name, |group| group.consumer(consumer, now));
                    Ok(Reply::Integer(1))
                }
                Change::DeleteConsumer(consumer) => {
                    let is_there = |group| stream.collections().consumer(group, consumer).is_some();
                    if !group.as_ref().is_some_and(is_there) {
                        return Ok(Reply::Integer(0));
                    }
                    let gone = stream.edit_group(name, |group| group.remove_consumer(consumer));
                    Ok(Reply::Integer(gone.flatten().unwrap_or(0) as i64))
                }
                Change::Help => Ok(Reply::Ok),
            }
        })
    }
}
