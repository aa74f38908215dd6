//! `dictum bucket`, and the shape of what `DICTUM.BUCKET` answers.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::Value;

use crate::cli::asked::{self, Asked, end, line_of_json};
use crate::cli::connection::{Connection, Endpoint};
use crate::status::{Output, aligned, columns};

/// What a bucket's kind may be.
pub const KINDS: [&str; 3] = ["persistent", "ephemeral", "cache"];
/// Which values leave the memory first; `node`: as the node says.
pub const POLICIES: [&str; 5] = ["fifo", "lru", "lfu", "s3-fifo", "node"];
/// What may have to be true before a write is answered.
pub const DURABILITIES: [&str; 3] = ["majority", "persist-majority", "all"];
/// What a read may see.
pub const CONSISTENCIES: [&str; 3] = ["linearizable", "session", "local"];

/// A bucket and its settings: the JSON of `GET /v1/buckets/{name}` and of `dictum bucket show --json`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// What `SELECT` calls it beside its name; another bucket may have it once this one is dropped.
    pub number: u64,
    /// Its own for ever; an ephemeral bucket that begins anew gets another one.
    pub id: u64,
    /// `persistent`, `ephemeral` or `cache`.
    pub kind: String,
    /// How many partitions it is cut into by its keys' hash slots.
    pub partitions: u64,
    /// Bytes of memory on each node; 0: no limit of its own.
    pub quota: u64,
    /// What a cache gives up first: `fifo`, `lru`, `lfu` or `s3-fifo`.
    pub policy: String,
    /// What is true before a write is answered, unless the request says otherwise: `majority`, `persist-majority` or `all`.
    pub durability: String,
    /// What a read sees, unless the request says otherwise: `linearizable`, `session` or `local`.
    pub consistency: String,
    /// Seconds after which keys expire that are made without a deadline; 0: never.
    pub ttl: u64,
    /// Longest value in bytes; 0: as the node's `--value-bytes-max` says.
    pub value_bytes_max: u64,
    /// Most units of work that one command, transaction or script may cost; 0: the default.
    pub work_max: u64,
}

impl BucketInfo {
    /// Reads what `DICTUM.BUCKET SHOW` answers, in RESP3 (a map) or RESP2 (names and values in turn). What a node of another version
    /// leaves out has its empty value; `None` if there is not even a name.
    #[must_use]
    pub fn read(reply: &Value) -> Option<BucketInfo> {
        let pairs: Vec<(&Value, &Value)> = match reply {
            Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
            Value::Array(flat) => flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
            _ => return None,
        };
        let mut bucket = BucketInfo::default();
        for (name, value) in pairs {
            let text = || value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
            let number = || value.as_integer().and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
            match name.as_bytes()? {
                b"name" => bucket.name = text(),
                b"number" => bucket.number = number(),
                b"id" => bucket.id = number(),
                b"kind" => bucket.kind = text(),
                b"partitions" => bucket.partitions = number(),
                b"quota" => bucket.quota = number(),
                b"policy" => bucket.policy = text(),
                b"durability" => bucket.durability = text(),
                b"consistency" => bucket.consistency = text(),
                b"ttl" => bucket.ttl = number(),
                b"value-bytes-max" => bucket.value_bytes_max = number(),
                b"work-max" => bucket.work_max = number(),
                _ => {}
            }
        }
        (!bucket.name.is_empty()).then_some(bucket)
    }

    /// Reads what `DICTUM.BUCKET LIST` answers.
    #[must_use]
    pub fn read_list(reply: &Value) -> Option<Vec<BucketInfo>> {
        reply.as_array()?.iter().map(BucketInfo::read).collect()
    }
}

/// Arguments of `dictum bucket`.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    dictum bucket create users\n  \
    dictum bucket create sessions --kind ephemeral --quota 64MiB --ttl 30m\n  \
    dictum bucket create pages --quota 1GiB --policy lru --at 10.0.0.2:7001\n  \
    dictum bucket create orders --durability all --consistency session\n  \
    dictum bucket create events --partitions 64\n  \
    dictum bucket set users --ttl 0\n  \
    dictum bucket list --json\n  \
    dictum bucket drop pages\n\n\
    Clients choose a bucket by SELECT name, by its name as the user in AUTH, or in the URL: /v1/buckets/users/keys/KEY.\n\n\
    Exit code: 0 if it was done, 1 if not, or if no node answers."
)]
pub struct BucketArguments {
    #[command(subcommand)]
    action: Action,
    /// How wide tables are.
    #[arg(short = 'o', long, global = true, value_enum, value_name = "WIDTH", default_value_t)]
    output: Output,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Creates a bucket.
    Create {
        /// A letter, then letters, digits, '-', '_' and '.'; 64 bytes at most.
        name: String,
        /// On disk; in the memory of all replicas only; or on disk and giving up values at its quota.
        #[arg(long, value_parser = PossibleValuesParser::new(KINDS))]
        kind: Option<String>,
        /// How many partitions it is cut into, 1 to 1024: each has a leader of its own. With more than one, commands that write several keys need keys
        /// with the same {tag}. Cannot be changed.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
        partitions: Option<u16>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Lists all buckets.
    List,
    /// Shows the settings of a bucket.
    Show {
        /// Its name.
        name: String,
    },
    /// Changes settings of a bucket; what is not said stays. Its kind cannot be changed.
    Set {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Removes a bucket with all its keys, for ever. Asks for its name at a terminal.
    Drop {
        /// Its name.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args, Debug)]
struct Settings {
    /// Bytes of memory on each node, as 64MiB; 0: no limit of its own. A cache needs one: at its quota keys go.
    #[arg(long, value_name = "BYTES")]
    quota: Option<String>,
    /// What a cache gives up first.
    #[arg(long, value_parser = PossibleValuesParser::new(POLICIES))]
    policy: Option<String>,
    /// What must be true before a write is answered, unless the request says otherwise: a majority of the replicas has it (on disk, if
    /// the bucket is); has it on disk; every replica has it.
    #[arg(long, value_parser = PossibleValuesParser::new(DURABILITIES))]
    durability: Option<String>,
    /// What a read sees, unless the request says otherwise: every write that was answered before; what its token stands for and its
    /// connection has seen; what the node has.
    #[arg(long, value_parser = PossibleValuesParser::new(CONSISTENCIES))]
    consistency: Option<String>,
    /// Keys that are made without a deadline expire so much later: 300, 90s, 5m, 12h, 7d; 0: never.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    ttl: Option<u64>,
    /// Longest value, as 1MiB; 0: as the node's --value-bytes-max says.
    #[arg(long, value_name = "BYTES")]
    value_bytes_max: Option<String>,
    /// Most units of work that one command, transaction or script may cost; past them nothing of it is done. 0: the default, 500000000, which is some
    /// seconds.
    #[arg(long, value_name = "UNITS")]
    work_max: Option<u64>,
}

impl Settings {
    /// As `DICTUM.BUCKET` takes them: names and values in turn.
    fn words(self) -> Vec<String> {
        let named = [
            ("QUOTA", self.quota),
            ("POLICY", self.policy),
            ("DURABILITY", self.durability),
            ("CONSISTENCY", self.consistency),
            ("TTL", self.ttl.map(|seconds| seconds.to_string())),
            ("VALUE-BYTES-MAX", self.value_bytes_max),
            ("WORK-MAX", self.work_max.map(|units| units.to_string())),
        ];
        named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect()
    }
}

/// Carries out `dictum bucket …`.
#[must_use]
pub fn run(arguments: BucketArguments) -> ExitCode {
    end("dictum bucket", carry_out(arguments))
}

/// The text to print, or the reason why nothing was done.
fn carry_out(arguments: BucketArguments) -> Result<String, String> {
    let BucketArguments { action, output, asked } = arguments;
    let (endpoint, connection) = asked.open()?;
    let json = asked.json;
    let mut node = Conversation { endpoint, connection };
    let shown = |bucket: &BucketInfo| if json { line_of_json(bucket) } else { details(bucket) };
    match action {
        Action::List => {
            let reply = node.ask(&["DICTUM.BUCKET", "LIST"])?;
            let buckets = BucketInfo::read_list(&reply).ok_or_else(|| node.strange())?;
            Ok(if json { line_of_json(&buckets) } else { table(&buckets, output) })
        }
        Action::Show { name } => node.show(&name).map(|bucket| shown(&bucket)),
        Action::Create { name, kind, partitions, settings } => {
            let mut words = vec!["DICTUM.BUCKET".to_owned(), "CREATE".to_owned(), name.clone()];
            words.extend(kind.into_iter().flat_map(|kind| ["KIND".to_owned(), kind]));
            words.extend(partitions.into_iter().flat_map(|count| ["PARTITIONS".to_owned(), count.to_string()]));
            words.extend(settings.words());
            node.ask(&words)?;
            node.show(&name).map(|bucket| shown(&bucket))
        }
        Action::Set { name, settings } => {
            let settings = settings.words();
            if settings.is_empty() {
                return Err("say what to change: --quota, --policy, --durability, --consistency, --ttl, \
                            --value-bytes-max or --work-max (`dictum bucket set --help`)"
                    .to_owned());
            }
            let words = ["DICTUM.BUCKET".to_owned(), "SET".to_owned(), name.clone()];
            node.ask(&[&words[..], &settings].concat())?;
            node.show(&name).map(|bucket| shown(&bucket))
        }
        Action::Drop { name, yes } => {
            let bucket = node.show(&name)?;
            if !yes {
                if !io::stdin().is_terminal() {
                    return Err(format!(
                        "dropping {name} removes all its keys for ever, and there is no terminal to ask at: if that is \
                         meant, say so with --yes. Nothing was done."
                    ));
                }
                let keys = node.keys(&name);
                if !confirmed(&bucket, keys, &mut io::stdin().lock(), &mut io::stderr()) {
                    return Err("that is not its name. Nothing was done.".to_owned());
                }
            }
            node.ask(&["DICTUM.BUCKET", "DROP", &name, "CONFIRM"])?;
            let dropped = serde_json::json!({ "dropped": name });
            Ok(if json { line_of_json(&dropped) } else { format!("{name} is dropped\n") })
        }
    }
}

/// A connection to a node, and where it is.
struct Conversation {
    endpoint: Endpoint,
    connection: Connection,
}

impl Conversation {
    /// One command; what is said if it is refused tells what to do next.
    fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value, String> {
        let endpoint = &self.endpoint;
        let reply = self.connection.call(words).map_err(|error| {
            format!(
                "the node at {endpoint} does not answer: {error}\n  If something was to be changed, `dictum bucket list` \
                 tells whether it is. Is that the node's RESP address, and not HTTP's or the peers'?"
            )
        })?;
        match reply.as_error() {
            Some(error) => Err(advised(error, endpoint)),
            None => Ok(reply),
        }
    }

    fn show(&mut self, name: &str) -> Result<BucketInfo, String> {
        let reply = self.ask(&["DICTUM.BUCKET", "SHOW", name])?;
        BucketInfo::read(&reply).ok_or_else(|| self.strange())
    }

    /// How many keys a bucket has, if that can be told.
    fn keys(&mut self, name: &str) -> Option<i64> {
        self.ask(&["SELECT", name]).ok()?;
        self.ask(&["DBSIZE"]).ok()?.as_integer()
    }

    fn strange(&self) -> String {
        format!("the server at {} answered something that this version cannot read", self.endpoint)
    }
}

/// A node's error, and advice to a person.
fn advised(error: &str, endpoint: &Endpoint) -> String {
    asked::advised(error, endpoint, "dictum bucket list", |code, text| match text {
        _ if code != "ERR" => None,
        _ if text.starts_with("there is no bucket") => Some("`dictum bucket list` shows those that there are."),
        _ if text.starts_with("there is a bucket") => Some("`dictum bucket set` changes it."),
        _ => None,
    })
}

/// Asks a person to type the bucket's name. Whether that was done.
fn confirmed(bucket: &BucketInfo, keys: Option<i64>, input: &mut dyn BufRead, out: &mut dyn Write) -> bool {
    let keys = match keys {
        Some(1) => "its one key".to_owned(),
        Some(keys) => format!("its {keys} keys"),
        None => "all its keys".to_owned(),
    };
    let BucketInfo { name, kind, .. } = bucket;
    let mut line = String::new();
    write!(out, "This removes the {kind} bucket {name} and {keys} from all nodes, for ever.\nType its name to go on: ")
        .and_then(|()| out.flush())
        .and_then(|()| input.read_line(&mut line))
        .is_ok_and(|_| line.trim() == name)
}

/// All buckets for people.
#[must_use]
pub fn table(buckets: &[BucketInfo], output: Output) -> String {
    let head = [
        "name",
        "number",
        "kind",
        "partitions",
        "quota",
        "policy",
        "durability",
        "consistency",
        "ttl",
        "value-bytes-max",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(buckets.iter().map(|it| {
        vec![
            it.name.clone(),
            it.number.to_string(),
            it.kind.clone(),
            it.partitions.to_string(),
            bytes(it.quota),
            it.policy.clone(),
            it.durability.clone(),
            it.consistency.clone(),
            seconds(it.ttl),
            bytes(it.value_bytes_max),
        ]
    }));
    columns(&rows, &[1, 3, 4, 8, 9], &[5, 6, 7, 9], output)
}

/// One bucket for people.
#[must_use]
pub fn details(it: &BucketInfo) -> String {
    let rows = [
        ("name", it.name.clone()),
        ("number", it.number.to_string()),
        ("id", it.id.to_string()),
        ("kind", it.kind.clone()),
        ("partitions", it.partitions.to_string()),
        ("quota", bytes(it.quota)),
        ("policy", it.policy.clone()),
        ("durability", it.durability.clone()),
        ("consistency", it.consistency.clone()),
        ("ttl", seconds(it.ttl)),
        ("value-bytes-max", bytes(it.value_bytes_max)),
        ("work-max", if it.work_max == 0 { "-".to_owned() } else { it.work_max.to_string() }),
    ];
    aligned(&rows.map(|(name, value)| vec![name.to_owned(), value]), &[])
}

/// A number of bytes as `--quota` takes it: in the largest unit that divides it.
fn bytes(number: u64) -> String {
    in_units(number, &[(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")], "B")
}

/// A number of seconds as `--ttl` takes it.
fn seconds(number: u64) -> String {
    in_units(number, &[(86_400, "d"), (3600, "h"), (60, "m")], "s")
}

fn in_units(number: u64, units: &[(u64, &str)], smallest: &str) -> String {
    let fitting = units.iter().find(|(size, _)| number.is_multiple_of(*size));
    let (size, unit) = fitting.copied().unwrap_or((1, smallest));
    if number == 0 { "-".to_owned() } else { format!("{}{unit}", number / size) }
}

/// `300`, `90s`, `5m`, `12h`, `7d`.
fn parse_seconds(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let number: Option<u64> = text[..digits].parse().ok();
    number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .ok_or_else(|| "write a number of seconds, or for example 90s, 5m, 12h, 7d; 0 for none".to_owned())
}

#[cfg(test)]
mod tests;
