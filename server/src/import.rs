//! `dictum import`: keys from elsewhere. Those of a Redis come from an RDB file, from the server itself, as one of its replicas gets them, or as commands; others as lines of JSON.

mod commands;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::WallTime;
use clap::Args;
use node::Row;
use node::rdb::{Item, RdbReader};

use crate::backup::nodes::Nodes;
use crate::backup::writing::Writer;
use crate::check::Progress;
use crate::cli::asked::Asked;
use crate::cli::connection::Endpoint;
use crate::secrets;

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;
/// Keys that are written together: so many, or so many bytes.
const CHUNK_KEYS: usize = 1000;
const CHUNK_BYTES: usize = 8 << 20;
/// Longest line of JSON, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 30;
/// How long a Redis may say nothing while it makes its file.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(600);
/// Exit code where keys were left out.
const EXIT_REJECTED: u8 = 3;

/// Arguments of `dictum import`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    dictum import dump.rdb --at 10.0.0.1:7001\n  \
    dictum import --from redis.example:6379 --from-password secret\n  \
    dictum import dump.rdb --into users\n  \
    dictum import users.jsonl --into users\n  \
    dictum import users.resp --into users                      commands, each carried out once\n\n\
    Database 0 goes into the bucket default, database 5 into database 5, libraries of functions into default. Of a running Redis it takes the keys of one moment; stop writing \
    there first, or what comes later is not in it. Of a Dictum it takes the databases by number (docs/backup.md).\n\n\
    Exit code: 0 if all of it was taken over, 3 if keys were left out (--rejects), 1 if it was broken off.")]
pub struct ImportArguments {
    /// An RDB file of Redis 2.6 to 8, lines of JSON as `dictum export --format jsonl` writes them, or commands; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
    file: Option<PathBuf>,
    /// A running Redis, or a node of another Dictum
    #[arg(long, value_name = "HOST:PORT")]
    from: Option<String>,
    /// Its user, if it has some
    #[arg(long, value_name = "NAME")]
    from_user: Option<String>,
    /// Its password
    #[arg(long, value_name = "PASSWORD", env = "DICTUM_FROM_PASSWORD", hide_env_values = true)]
    from_password: Option<String>,
    /// File whose first line is its password; it beats --from-password
    #[arg(long, value_name = "FILE", env = "DICTUM_FROM_PASSWORD_FILE")]
    from_password_file: Option<PathBuf>,
    /// All keys into this bucket, which has to be there; the source has to have one database
    #[arg(long, value_name = "NAME")]
    into: Option<String>,
    /// Into buckets that have keys: those of the source replace others of the same name, and these stay
    #[arg(long)]
    over: bool,
    /// Leave out so many keys, or commands, at the beginning: to go on where an import was broken off
    #[arg(long, value_name = "COUNT", default_value_t = 0, conflicts_with = "from")]
    skip: u64,
    /// Go on under the name that the broken-off import of commands has said: so none is carried out twice
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    name: Option<String>,
    /// Where keys go whose values cannot be read here, as commands or as the lines that they were, and commands that are refused; without it the first of them ends the import
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    #[command(flatten)]
    asked: Asked,
}

/// The result so far.
#[derive(Debug, Default)]
struct Imported {
    /// Keys, or commands, of the source that were dealt with, those that were left out among them.
    seen: u64,
    written: u64,
    /// Their time was up.
    over: u64,
    rejected: u64,
    libraries: u64,
    /// The word for what is counted.
    what: &'static str,
    /// Of an import of commands its name.
    name: String,
}

/// Carries it out.
#[must_use]
pub fn run(arguments: ImportArguments) -> ExitCode {
    let mut progress = Progress::new();
    let mut imported = Imported { what: "keys", ..Imported::default() };
    let outcome = import(&arguments, &mut imported, &mut progress);
    progress.clear();
    let Imported { seen, written, over, rejected, libraries, what, name } = imported;
    match outcome {
        Ok(()) if arguments.asked.json => lab::say_line!(
            "{}",
            serde_json::json!({ what: written, "over": over, "rejected": rejected, "libraries": libraries })
        ),
        Ok(()) if what == "commands" => lab::say_line!("{written} commands were carried out"),
        Ok(()) => {
            lab::say_line!("{written} keys and {libraries} libraries of functions were taken over");
            if over > 0 {
                lab::say_line!("{over} keys were left out, as their time was up");
            }
        }
        Err(text) => {
            eprintln!("dictum import: {text}");
            let again = if name.is_empty() { String::new() } else { format!(" --name {name}") };
            if seen > arguments.skip && arguments.from.is_none() {
                eprintln!(
                    "  {seen} {what} are dealt with: the same command with --over --skip {seen}{again} goes on behind them."
                );
            }
            return ExitCode::FAILURE;
        }
    }
    if rejected == 0 {
        return ExitCode::SUCCESS;
    }
    let why = if what == "commands" { "were refused" } else { "cannot be read here" };
    eprintln!("dictum import: {rejected} {what} {why}; they are in the file of --rejects");
    ExitCode::from(EXIT_REJECTED)
}

fn import(arguments: &ImportArguments, imported: &mut Imported, progress: &mut Progress) -> Result<(), String> {
    let mut nodes = Nodes::open(&arguments.asked)?;
    let mut source = open(arguments)?;
    let chunk = Chunk::default();
    let mut import = Import {
        arguments,
        nodes: &mut nodes,
        imported,
        progress,
        database: None,
        is_selected: false,
        rejects: None,
        chunk,
        entered: BTreeSet::new(),
        name: arguments.name.clone().unwrap_or_else(commands::new_name),
    };
    import.progress.begin("import");
    let mut first = [0];
    if source.read(&mut first).map_err(unread)? == 0 {
        return Err("the source is empty".to_owned());
    }
    match first[0] {
        b'{' => import.lines(BufReader::new(first.chain(source))),
        b'*' | b'#' => {
            import.imported.what = "commands";
            import.imported.name.clone_from(&import.name);
            import.commands(first.chain(source))
        }
        _ => import.rdb(first.chain(source)),
    }
}

fn unread(error: io::Error) -> String {
    format!("the source cannot be read: {error}")
}

/// The source of the keys.
fn open(arguments: &ImportArguments) -> Result<Box<dyn Read>, String> {
    if let Some(from) = &arguments.from {
        let password = secrets::choose(arguments.from_password.clone(), arguments.from_password_file.as_ref())?;
        if arguments.from_user.is_some() && password.is_none() {
            return Err("--from-user needs --from-password-file, or the variable DICTUM_FROM_PASSWORD".to_owned());
        }
        let credentials: Vec<&str> = arguments.from_user.iter().chain(&password).map(String::as_str).collect();
        let endpoint = Endpoint::parse(from)?;
        return replicate(&endpoint, &credentials)
            .map(|stream| Box::new(stream) as Box<dyn Read>)
            .map_err(|error| format!("the Redis at {endpoint}: {error}"));
    }
    match arguments.file.as_deref().unwrap_or(Path::new("-")) {
        file if file == Path::new("-") => Ok(Box::new(io::stdin().lock())),
        file => match File::open(file) {
            Ok(opened) => Ok(Box::new(opened)),
            Err(error) => Err(format!("{}: {error}", file.display())),
        },
    }
}

/// Asks a Redis for all it has, as a new replica does. It answers with its RDB file, and behind that with all writes since.
fn replicate(endpoint: &Endpoint, credentials: &[&str]) -> io::Result<io::Take<TcpStream>> {
    let mut stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port))?;
    stream.set_read_timeout(Some(SOURCE_TIMEOUT))?;
    let mut command = Vec::new();
    if !credentials.is_empty() {
        wire::encode_command(&mut command, [&["AUTH"][..], credentials].concat());
        stream.write_all(&command)?;
        let answer = line(&mut stream)?;
        if !answer.starts_with('+') {
            return Err(io::Error::other(answer));
        }
        command.clear();
    }
    wire::encode_command(&mut command, ["PSYNC", "?", "-1"]);
    stream.write_all(&command)?;
    loop {
        // Empty lines say that it lives, and is at work on its file.
        let answer = line(&mut stream)?;
        match answer.bytes().next() {
            None | Some(b'+') => {}
            Some(b'$') => {
                let length = answer[1..].parse().map_err(|_| io::Error::other(answer.clone()))?;
                return Ok(stream.take(length));
            }
            _ => return Err(io::Error::other(answer)),
        }
    }
}

/// A line of an answer, byte by byte: what follows is not for us.
fn line(stream: &mut TcpStream) -> io::Result<String> {
    const BYTES_MAX: usize = 4096;
    let (mut text, mut byte) = (Vec::new(), [0]);
    loop {
        stream.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' => break,
            _ if text.len() >= BYTES_MAX => return Err(io::Error::other("this is no Redis")),
            other => text.push(other),
        }
    }
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}

/// Keys that are written together.
#[derive(Default)]
struct Chunk {
    rows: Vec<Row>,
    bytes: usize,
    /// Keys of the source that it stands for, those that were left out among them.
    seen: u64,
    /// Values that cannot be read here, and how many keys that is.
    rejected: Vec<u8>,
    rejected_keys: u64,
}

struct Import<'i> {
    arguments: &'i ImportArguments,
    nodes: &'i mut Nodes,
    imported: &'i mut Imported,
    progress: &'i mut Progress,
    /// That of the source whose keys are being read.
    database: Option<u64>,
    /// Its bucket is selected.
    is_selected: bool,
    rejects: Option<File>,
    chunk: Chunk,
    /// Databases of the source that there were keys of.
    entered: BTreeSet<u64>,
    /// The beginning of the identifiers of commands.
    name: String,
}

impl Import<'_> {
    fn rdb(&mut self, mut source: impl Read) -> Result<(), String> {
        let (mut reader, mut buffer) = (RdbReader::default(), vec![0; READ_BYTES]);
        while !reader.is_at_end() {
            let count = source.read(&mut buffer).map_err(unread)?;
            reader.push(&buffer[..count]);
            if count == 0 {
                reader.end();
            }
            while let Some(item) = reader.next().map_err(|error| error.to_string())? {
                match item {
                    Item::Library(code) => self.library(&code)?,
                    Item::Key(key) => {
                        self.enter(key.database)?;
                        let command = |out: &mut Vec<u8>| {
                            let at = key.deadline.map_or(0, |deadline| deadline.0).to_string();
                            let words: [&[u8]; 6] =
                                [b"RESTORE", &key.name, at.as_bytes(), &key.payload, b"REPLACE", b"ABSTTL"];
                            wire::encode_command(out, words);
                        };
                        self.take(Row::of_key(&key, now()), &wire::quote(&key.name), key.payload.len(), command)?;
                    }
                }
            }
            if count == 0 && !reader.is_at_end() {
                return Err("the source ends in the middle: its file was cut short, or its server is gone".to_owned());
            }
        }
        self.write()
    }

    fn lines(&mut self, mut source: impl BufRead) -> Result<(), String> {
        self.enter(0)?;
        let (mut line, mut number) = (Vec::new(), 0u64);
        loop {
            line.clear();
            number += 1;
            let count = (&mut source).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(unread)?;
            if count == 0 {
                return self.write();
            }
            if line.last() != Some(&b'\n') && count as u64 == LINE_BYTES_MAX {
                return Err(format!("line {number} is longer than a gibibyte"));
            }
            let text = std::str::from_utf8(&line).map(str::trim_end);
            if text.is_ok_and(str::is_empty) {
                continue;
            }
            let row = text.map_err(|error| error.to_string()).and_then(|text| Row::of_line(text, now()));
            self.take(row, &format!("of line {number}"), line.len(), |out| {
                out.extend_from_slice(line.trim_ascii_end());
                out.push(b'\n');
            })?;
        }
    }

    /// The next keys are of this database.
    fn enter(&mut self, database: u64) -> Result<(), String> {
        if self.database == Some(database) && self.is_selected {
            return Ok(());
        }
        if self.arguments.into.is_some() && self.database.is_some_and(|other| other != database) {
            return Err("the source has several databases: --into takes one".to_owned());
        }
        self.write()?;
        let is_new = self.entered.insert(database);
        (self.database, self.is_selected) = (Some(database), true);
        let bucket = match (&self.arguments.into, database) {
            (Some(name), _) => name.clone(),
            (None, 0) => "default".to_owned(),
            (None, number) => number.to_string(),
        };
        self.nodes.select(&bucket);
        let keys = self.nodes.ask_any(&["DBSIZE"])?.as_integer().unwrap_or_default();
        if is_new && keys > 0 && !self.arguments.over {
            return Err(format!(
                "the bucket '{bucket}' has {keys} keys. Say --into NAME for another one, or --over: then keys of the source replace those of the same name"
            ));
        }
        Ok(())
    }

    fn library(&mut self, code: &[u8]) -> Result<(), String> {
        if self.arguments.skip > 0 {
            return Ok(());
        }
        self.write()?;
        self.nodes.select(self.arguments.into.as_deref().unwrap_or("default"));
        self.nodes.ask_any(&[&b"FUNCTION"[..], b"LOAD", b"REPLACE", code])?;
        self.imported.libraries += 1;
        self.is_selected = false;
        Ok(())
    }

    /// Takes a key that was read, `about` which people are told; `reject` writes down what cannot be read here.
    fn take(
        &mut self,
        row: Result<Option<Row>, String>,
        about: &str,
        bytes: usize,
        reject: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), String> {
        self.chunk.seen += 1;
        if self.imported.seen + self.chunk.seen <= self.arguments.skip {
            return Ok(());
        }
        match row {
            Ok(Some(row)) => {
                self.chunk.bytes += bytes;
                self.chunk.rows.push(row);
            }
            Ok(None) => self.imported.over += 1,
            Err(_) if self.arguments.rejects.is_some() => {
                reject(&mut self.chunk.rejected);
                self.chunk.rejected_keys += 1;
            }
            Err(text) => {
                return Err(format!(
                    "the value of key {about} cannot be read here: {text}. With --rejects FILE such keys are left out, and kept there"
                ));
            }
        }
        if self.chunk.rows.len() >= CHUNK_KEYS || self.chunk.bytes + self.chunk.rejected.len() >= CHUNK_BYTES {
            self.write()
        } else {
            Ok(())
        }
    }

    /// Writes the keys that were gathered.
    fn write(&mut self) -> Result<(), String> {
        let Chunk { rows, seen, rejected, rejected_keys, .. } = std::mem::take(&mut self.chunk);
        if !rows.is_empty() {
            let written = Writer::new(&mut *self.nodes, &mut *self.progress).write(|from, say| {
                let start = from.and_then(|from| rows.iter().position(|row| row.name() == from)).unwrap_or(0);
                rows[start..].iter().try_for_each(|row| row.say(&mut *say))
            })?;
            self.imported.written += written;
        }
        if rejected_keys > 0 {
            self.reject(&rejected)?;
        }
        self.imported.rejected += rejected_keys;
        self.imported.seen += seen;
        Ok(())
    }

    /// Keeps values that cannot be read here.
    fn reject(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(path) = &self.arguments.rejects else { return Ok(()) };
        let failed = |error| format!("{}: {error}", path.display());
        if self.rejects.is_none() {
            self.rejects = Some(OpenOptions::new().append(true).create(true).open(path).map_err(failed)?);
        }
        self.rejects.as_mut().expect("it was opened above").write_all(bytes).map_err(failed)
    }
}

/// By this machine's clock.
fn now() -> WallTime {
    WallTime(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
}
