//! Commands that concern the server.

use data::spec::Group;
use data::{Failure, Reply};

use super::{ADMIN, ALWAYS, Context, Entry, Local, Marks, answers, container, helps, spec, special};
use crate::door::Level;
use crate::full_sync;
use crate::group::DEFAULT_PARTITION;
use crate::node::{Node, news_of};
use crate::session::Session;

/// The version of Redis whose behaviour clients may expect.
pub const COMPATIBLE_VERSION: &str = "7.4.0";

const GROUP: Group = Group::Server;
/// Marks of the commands by which replicas ask for everything.
const OF_REPLICAS: Marks = &["admin", "noscript", "no_async_loading", "no_multi"];

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    answers(spec("time", 1, GROUP, "2.6.0", "Returns the server time.", ""), &["loading", "stale", "fast"], time),
    special(
        spec(
            "wait",
            3,
            GROUP,
            "3.0.0",
            "Blocks until the writes of the connection are on the disks of so many replicas.",
            "numreplicas timeout",
        ),
        &["blocking", "@connection"],
        Local::Wait,
    ),
    special(
        spec(
            "waitaof",
            4,
            GROUP,
            "7.2.0",
            "Blocks until the writes of the connection are on the disks of the leader and of so many replicas.",
            "numlocal numreplicas timeout",
        ),
        &["blocking", "@connection"],
        Local::Wait,
    ),
    special(
        spec(
            "shutdown",
            -1,
            GROUP,
            "1.0.0",
            "Hands over leadership and stops the node.",
            "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        ),
        &["admin", "noscript", "loading", "stale", "no_multi", "allow_busy"],
        Local::Shutdown,
    ),
    answers(
        spec("role", 1, GROUP, "2.8.12", "Returns the replication role.", ""),
        &["noscript", "loading", "stale", "fast", "@admin", "@dangerous"],
        role,
    ),
    answers(
        spec("monitor", 1, GROUP, "1.0.0", "Shows every command of this node's clients.", ""),
        ADMIN,
        |context, _| {
            context.node.monitors.insert(context.session.id);
            Ok(Reply::Ok)
        },
    ),
    special(spec("sync", 1, GROUP, "1.0.0", "Sends all keys as an RDB file.", ""), OF_REPLICAS, Local::FullSync),
    special(
        spec("psync", -3, GROUP, "2.8.0", "Sends all keys as an RDB file, to PSYNC ? -1.", "replicationid offset"),
        OF_REPLICAS,
        Local::FullSync,
    ),
    answers(
        spec("replconf", -1, GROUP, "3.0.0", "Takes note of a replica's options before PSYNC.", "[option value ...]"),
        ADMIN,
        |_, words| full_sync::replconf(words),
    ),
    answers(
        spec("lastsave", 1, GROUP, "1.0.0", "Returns when the last snapshot was saved.", ""),
        &["loading", "stale", "fast", "@admin", "@dangerous"],
        last_save,
    ),
    answers(
        spec("save", 1, GROUP, "1.0.0", "Asks for a flush: everything acknowledged is on disk already.", ""),
        &["admin", "noscript", "no_async_loading", "no_multi"],
        save,
    ),
    answers(
        spec("lolwut", -1, GROUP, "5.0.0", "Displays the version.", "[VERSION version]"),
        &["readonly", "fast"],
        lolwut,
    ),
    answers(
        spec("pfselftest", 1, Group::HyperLogLog, "2.8.9", "Tests the registers of HyperLogLogs.", ""),
        &["admin"],
        |_, _| match data::algorithms::hyperloglog::self_test() {
            Ok(()) => Ok(Reply::Ok),
            Err(text) => Err(Failure::built(format!("ERR TESTFAILED {text}").as_bytes())),
        },
    ),
    answers(
        spec("bgsave", -1, GROUP, "1.0.0", "Saves a snapshot in the background.", "[SCHEDULE]"),
        &["admin", "noscript", "no_async_loading"],
        background_save,
    ),
    answers(
        spec(
            "bgrewriteaof",
            1,
            GROUP,
            "1.0.0",
            "Saves a snapshot in the background and shortens the log to what it does not hold.",
            "",
        ),
        &["admin", "noscript", "no_async_loading"],
        background_rewrite,
    ),
    answers(
        spec("debug", -2, GROUP, "1.0.0", "Is for those who debug a Redis; refused here.", "subcommand [arg ...]"),
        ADMIN,
        |_, _| {
            Err(Failure::Text(
                "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
            ))
        },
    ),
    container("module", GROUP, "4.0.0", "Tells of modules, of which there are none.", MODULE),
];

static MODULE: &[Entry] = &[
    answers(spec("module|list", 2, GROUP, "4.0.0", "Lists the modules.", ""), &["admin", "noscript"], |_, _| {
        Ok(Reply::Array(Vec::new()))
    }),
    helps("module|help", GROUP, ALWAYS),
];

fn time(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let wall = context.node.clock.now().unwrap_or_else(|| context.node.clock.own()).0;
    let (seconds, microseconds) = (wall / 1000, wall % 1000 * 1000);
    let text = |number: u64| Reply::bulk(number.to_string().as_bytes());
    Ok(Reply::Array(vec![text(seconds), text(microseconds)]))
}

/// A peer that can be reached, as INFO and ROLE describe a replica.
pub(super) struct Replica {
    pub host: String,
    pub port: String,
    /// How much of the log its disk has.
    pub offset: u64,
    /// Seconds since it was last heard of.
    pub silence: u64,
}

/// The other nodes that can be reached, in the order of their names.
pub(super) fn replicas(node: &Node) -> Vec<Replica> {
    let time = node.now.time;
    let up = node.detectors.iter().filter(|detector| detector.is_up(time));
    up.map(|detector| {
        let ping = node.news.get(&detector.peer);
        let member = node.roll.get(detector.peer);
        let address = ping.map(|ping| ping.resp_address.as_str()).filter(|address| !address.is_empty());
        let address = address.or(member.map(|member| member.peer_address.as_str())).unwrap_or_default();
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
        let news = ping.and_then(|ping| news_of(ping, DEFAULT_PARTITION));
        Replica {
            host: host.to_owned(),
            port: port.to_owned(),
            offset: news.map_or(0, |news| news.persisted.0),
            silence: detector.silence(time).map_or(0, |silence| silence.as_secs()),
        }
    })
    .collect()
}

/// Every node takes writes, so every node is a master to its clients, and the others are its replicas.
fn role(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let one = |replica: Replica| {
        let offset = replica.offset.to_string();
        Reply::Array(vec![Reply::bulk(replica.host), Reply::bulk(replica.port), Reply::bulk(offset)])
    };
    Ok(Reply::Array(vec![
        Reply::bulk("master"),
        Reply::Integer(context.node.default_group().partition.replica.decided().0 as i64),
        Reply::Array(replicas(context.node).into_iter().map(one).collect()),
    ]))
}

/// When the last snapshot was saved, in seconds since 1970; as in Redis, the start counts as one.
pub(super) fn last_save_seconds(node: &Node) -> u64 {
    node.stats.last_snapshot.unwrap_or(node.started.wall).0 / 1000
}

fn last_save(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::Integer(last_save_seconds(context.node) as i64))
}

/// Everything that was answered is on the disks of a majority; what is left to do is what `BGSAVE` does.
fn save(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    if context.node.stats.snapshot_running {
        return Err(Failure::Text("ERR Background save already in progress"));
    }
    for group in &mut context.node.groups {
        group.partition.snapshot_wanted = true;
    }
    Ok(Reply::Ok)
}

fn lolwut(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let nodes = context.node.roll.len();
    let text = format!(
        "What was decided stays decided,\n{nodes} witnesses to every word;\nask any one of them.\n\nRedis ver. {COMPATIBLE_VERSION}, Dictum ver. {version}\n"
    );
    Ok(Reply::Verbatim(text.into()))
}

fn background_save(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let scheduled = match words {
        [_] => false,
        [_, option] if option.eq_ignore_ascii_case(b"schedule") => true,
        _ => return Err(Failure::Syntax),
    };
    let running = context.node.stats.snapshot_running;
    if running && !scheduled {
        return Err(Failure::Text("ERR Background save already in progress"));
    }
    for group in &mut context.node.groups {
        group.partition.snapshot_wanted = true;
    }
    Ok(Reply::Simple(if running { "Background saving scheduled" } else { "Background saving started" }))
}

fn background_rewrite(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let running = context.node.stats.snapshot_running;
    for group in &mut context.node.groups {
        group.partition.snapshot_wanted = true;
    }
    Ok(Reply::Simple(if running {
        "Background append only file rewriting scheduled"
    } else {
        "Background append only file rewriting started"
    }))
}

/// What a SHUTDOWN's words ask for: to stop, or (`true`) to stop stopping.
fn is_abort(words: &[&[u8]]) -> Result<bool, Failure> {
    let (mut save, mut no_save, mut abort) = (false, false, false);
    for word in &words[1..] {
        match word.to_ascii_lowercase().as_slice() {
            b"save" => save = true,
            b"nosave" => no_save = true,
            b"abort" => abort = true,
            b"now" | b"force" => {}
            _ => return Err(Failure::Syntax),
        }
    }
    if (save && no_save) || (abort && words.len() > 2) { Err(Failure::Syntax) } else { Ok(abort) }
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`. Everything acknowledged is on disk already, so saving or not makes no
/// difference; a hand-over that has begun is not taken back.
pub(crate) fn shutdown(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    let failure = match is_abort(words) {
        Ok(false) => {
            node.event(Level::Info, format!("SHUTDOWN was asked for by {}", session.address));
            session.closing = true;
            return node.stop();
        }
        Ok(true) if node.stopping.is_some() => Failure::Text("ERR the shutdown can no longer be aborted"),
        Ok(true) => Failure::Text("ERR No shutdown in progress."),
        Err(failure) => failure,
    };
    node.refuse(session, &failure);
}
