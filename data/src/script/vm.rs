//! A virtual machine of Lua, and how a script is run in it.

use super::calls::carry_out;
use super::library::{Registered, is_name, script_head, without_head};
use super::natives::{Limit, Shared, is_memory, natives_table, position, raised_as_table, told};
use super::values::{Answering, error};
use super::{
    BYTES_MAX, CODE_BYTES_MAX, Call, Code, Host, INSTRUCTIONS_MAX, Rules, cjson, cmsgpack, maths, packing, redis_api,
    sha1, text,
};
use crate::failure::Failure;
use crate::reply::Reply;
use mlua::chunk::ChunkMode;
use mlua::{Error, Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, Variadic, VmState};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Instructions between two looks at what is left; and units of work, of which Lua tells in slices of the same size (lua/c/dictum.c).
const INSTRUCTIONS_AT_ONCE: u32 = 1000;
/// A used machine that holds more is not used again.
const USED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// After so many bytes of garbage it is collected.
const GARBAGE_BYTES: usize = 1024 * 1024;
/// Scripts that a machine keeps compiled.
const COMPILED_MAX: usize = 1000;

/// Why a script did not come to an end of its own.
pub(super) enum Broken {
    /// It broke a limit, and would anywhere.
    Limit(Failure),
    /// It broke the limit of bytes: in a used machine that means nothing yet.
    Bytes,
    /// The machine itself failed.
    Machine(String),
}

impl Broken {
    /// What a client would be told.
    pub(super) fn text(&self) -> String {
        match self {
            Broken::Limit(failure) => failure.to_string(),
            Broken::Bytes => super::OUT_OF_BYTES.to_string(),
            Broken::Machine(text) => text.clone(),
        }
    }
}

/// See the file's head.
pub(super) struct Machine {
    lua: Lua,
    shared: Rc<Shared>,
    doors: Doors,
    /// Scripts and libraries by the SHA1 of their code.
    scripts: BTreeMap<String, Compiled>,
    libraries: BTreeMap<String, Compiled>,
    /// Has Lua count anew.
    count_anew: Function,
    /// Units of work that compiling what runs now took.
    compiling: Cell<u64>,
    is_new: bool,
    /// What a script may use up.
    units_max: u64,
    bytes_max: u64,
    /// Bytes in use after the last collection.
    settled_bytes: usize,
}

/// A function that Lua has made of code, and the units of work that this took. They are paid wherever it is called, as another machine may still have to
/// compile it.
#[derive(Clone)]
struct Compiled {
    function: Function,
    units: u64,
}

/// What the prelude gives back, looked up once.
struct Doors {
    /// What scripts see as `redis`.
    redis: Table,
    script: Function,
    loading: Function,
    call: Function,
    /// Tables that are empty as long as nothing was written past the shut doors.
    fronts: Vec<Table>,
}

/// What a body of code is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Script,
    Library,
}

impl Chunk {
    /// Its name in messages.
    fn name(self) -> &'static str {
        match self {
            Chunk::Script => "@user_script",
            Chunk::Library => "@user_function",
        }
    }
}

const VERSION: &str = "7.4.0";
const VERSION_NUMBER: u32 = 0x0007_0400;

impl Machine {
    pub(super) fn new(rules: Rules) -> Result<Machine, Error> {
        // Leaves `pcall` and `xpcall` as they are in Lua.
        let options = LuaOptions::new().catch_rust_panics(true);
        let lua = Lua::new_with(StdLib::NONE, options)?;
        // Another Lua than ours does not have these two, and no script is run with it.
        let begin: Function = lua.globals().raw_get("dictum_begin")?;
        let old_rules: Function = lua.globals().raw_get("dictum_old_rules")?;
        if rules == Rules::Instructions {
            old_rules.call::<()>(())?;
        }
        lua.load_std_libs(StdLib::TABLE | StdLib::STRING | StdLib::MATH)?;
        let shared = Rc::new(Shared::new(rules));
        let natives = natives(&lua, &shared)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=dictum").set_mode(ChunkMode::Text);
        let api: Table = prelude.call(natives)?;
        let doors = Doors {
            redis: api.raw_get("redis")?,
            script: api.raw_get("script")?,
            loading: api.raw_get("loading")?,
            call: api.raw_get("call")?,
            fronts: api.raw_get::<Table>("fronts")?.sequence_values().collect::<Result<_, _>>()?,
        };
        drop(api);
        lua.gc_collect()?;
        lua.gc_stop();
        let settled_bytes = lua.used_memory();
        let (scripts, libraries, compiling) = (BTreeMap::new(), BTreeMap::new(), Cell::new(0));
        Ok(Machine {
            lua,
            shared,
            doors,
            scripts,
            libraries,
            count_anew: begin,
            compiling,
            is_new: true,
            units_max: INSTRUCTIONS_MAX,
            bytes_max: BYTES_MAX,
            settled_bytes,
        })
    }

    /// Units of work that the last script has taken.
    #[cfg(test)]
    pub(super) fn work_done(&self) -> u64 {
        let untold: f64 = self.count_anew.call(()).unwrap();
        self.units_max - self.shared.instructions_left() + untold as u64
    }

    /// The same machine with smaller limits: the fuzzer has many scripts to run.
    pub(super) fn with_limits(mut self, units: u64, bytes: u64) -> Machine {
        (self.units_max, self.bytes_max) = (units, bytes);
        self
    }

    /// Between scripts: collects garbage; whether the machine may be used again.
    pub(super) fn tidy(&mut self) -> bool {
        self.is_new = false;
        let is_intact = self.doors.fronts.iter().all(Table::is_empty);
        if !is_intact || self.scripts.len() + self.libraries.len() > COMPILED_MAX {
            return false;
        }
        if self.lua.used_memory() > self.settled_bytes + GARBAGE_BYTES {
            if self.lua.gc_collect().is_err() {
                return false;
            }
            // A collection sets it going again.
            self.lua.gc_stop();
            self.settled_bytes = self.lua.used_memory();
        }
        self.settled_bytes <= USED_BYTES_MAX
    }

    /// Units of work that what ran last has taken.
    pub(super) fn spent(&self) -> u64 {
        self.compiling.get() + self.units_max - self.shared.instructions_left()
    }

    /// Before a script: sets the limits.
    fn begin(&self, seed: u64) -> Result<(), Broken> {
        self.compiling.set(0);
        self.shared.reset(self.units_max, self.bytes_max, seed);
        self.limit_bytes();
        let shared = Rc::clone(&self.shared);
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_AT_ONCE);
        // Set anew, so that each script begins to count at zero.
        let count = move |_: &Lua, _: &mlua::debug::Debug<'_>| {
            shared.spend(u64::from(INSTRUCTIONS_AT_ONCE))?;
            Ok(VmState::Continue)
        };
        self.lua.set_global_hook(triggers, count).map_err(machine)?;
        self.count_anew.call::<()>(()).map_err(machine)
    }

    /// After compiling, which has an allowance of its own, as a used machine may be spared it: a script begins with all that it may use up. Answers what compiling
    /// took.
    fn begin_anew(&self) -> Result<u64, Broken> {
        self.limit_bytes();
        let told = self.units_max - self.shared.instructions_left();
        let untold: f64 = self.count_anew.call(()).map_err(machine)?;
        if !self.shared.is_metered() {
            return Ok(0);
        }
        self.shared.refill(self.units_max);
        Ok(told + untold as u64)
    }

    /// From here on so many bytes may be allocated. What fits into a used machine's allowance fits into a new one's, too: that lacks no more than what the used
    /// one held before.
    fn limit_bytes(&self) {
        let room = if self.is_new { self.bytes_max } else { self.bytes_max - (USED_BYTES_MAX + GARBAGE_BYTES) as u64 };
        self.shared.memory_limit.set(self.lua.used_memory() + room as usize);
    }

    /// Lets Lua run code that is not ours. What that allocates is limited; what we allocate is counted, but refused only to the next of its own: under a limit each
    /// of our calls of Lua is a protected one, and these took more time than all the rest of a short script.
    fn limited<R>(&self, run: impl FnOnce() -> R) -> Result<R, Error> {
        self.lua.set_memory_limit(self.shared.memory_limit.get())?;
        let outcome = run();
        self.lua.set_memory_limit(0)?;
        Ok(outcome)
    }

    /// What an error of Lua's own means, if it is not the script's.
    fn broken(&self, error: &Error) -> Option<Broken> {
        match self.shared.broken.get() {
            Some(Limit::Bytes) => Some(Broken::Bytes),
            Some(limit) => Some(Broken::Limit(limit_failure(limit, self.shared.is_metered()))),
            None if is_memory(error) => Some(Broken::Bytes),
            None => None,
        }
    }

    fn function(&mut self, chunk: Chunk, sha: &str, code: &[u8]) -> Result<Result<Function, String>, Broken> {
        let compiled = match chunk {
            Chunk::Script => &self.scripts,
            Chunk::Library => &self.libraries,
        };
        if let Some(found) = compiled.get(sha) {
            self.compiling.set(found.units);
            return Ok(Ok(found.function.clone()));
        }
        let load = || {
            let code = self.lua.load(without_head(code)).set_name(chunk.name()).set_mode(ChunkMode::Text);
            code.into_function()
        };
        let loaded = self.limited(load).map_err(machine)?;
        if self.shared.broken.get().is_some() {
            return Err(self.broken(&Error::runtime("")).unwrap_or(Broken::Bytes));
        }
        match loaded {
            Ok(function) => {
                let units = self.begin_anew()?;
                self.compiling.set(units);
                let compiled = match chunk {
                    Chunk::Script => &mut self.scripts,
                    Chunk::Library => &mut self.libraries,
                };
                compiled.insert(sha.to_owned(), Compiled { function: function.clone(), units });
                Ok(Ok(function))
            }
            Err(Error::SyntaxError { message, .. }) if !message.contains("not enough memory") => Ok(Err(message)),
            Err(error) if is_memory(&error) => Err(Broken::Bytes),
            Err(error) => Err(machine(error)),
        }
    }

    /// Whether a script can be compiled.
    pub(super) fn check(&mut self, body: &[u8]) -> Result<Result<(), Failure>, Broken> {
        self.begin(0)?;
        Ok(match self.function(Chunk::Script, &sha1(body), body)? {
            Ok(_) => Ok(()),
            Err(message) => Err(not_compiled(&message)),
        })
    }

    /// Runs a library, and tells what it registers.
    pub(super) fn functions_of(&mut self, code: &[u8]) -> Result<Result<Vec<Registered>, Failure>, Broken> {
        self.begin(0)?;
        let function = match self.function(Chunk::Library, &sha1(code), code)? {
            Ok(function) => function,
            Err(message) => {
                return Ok(Err(Failure::built(format!("ERR Error compiling function: {message}").as_bytes())));
            }
        };
        let load = || self.doors.loading.call::<(bool, Value)>(function);
        let (ok, value) = match self.limited(load).map_err(machine)? {
            Ok(outcome) => outcome,
            Err(error) => return Err(self.broken(&error).unwrap_or_else(|| machine(error))),
        };
        if self.shared.broken.get().is_some() || (!ok && self.shared.is_broken(&value)) {
            return Err(self.broken(&Error::runtime("")).unwrap_or(Broken::Bytes));
        }
        if !ok {
            let text = self.error_text(&value, None).map_err(machine)?;
            return Ok(Err(Failure::built(&[b"ERR Error registering functions: ", &text[..]].concat())));
        }
        registered(&value).map_err(machine).map(Ok)
    }

    /// Runs what is called.
    pub(super) fn run(&mut self, call: &Call<'_>, host: &mut dyn Host) -> Result<Reply, Broken> {
        self.begin(call.seed)?;
        self.shared.version.set(host.version());
        self.shared.permit.replace(host.permit());
        let (chunk, sha, body, name) = match call.code {
            Code::Script { body, sha } => (Chunk::Script, sha, body, sha.as_bytes()),
            Code::Function { library, sha, name } => (Chunk::Library, sha, library, name),
        };
        let mut read_only = call.read_only;
        if chunk == Chunk::Script {
            match script_head(body) {
                Ok(said) => read_only |= said.no_writes,
                Err(failure) => return Ok(Reply::Error(failure)),
            }
        }
        let function = match self.function(chunk, sha, body)? {
            Ok(function) => function,
            Err(message) => return Ok(Reply::Error(not_compiled(&message))),
        };
        let host = RefCell::new(host);
        let outcome = self.lua.scope(|scope| {
            let (shared, host) = (&*self.shared, &host);
            let raising = scope.create_function(move |lua, words: Variadic<Value>| {
                carry_out(lua, shared, &words, read_only, &mut **host.borrow_mut())?
                    .map_err(|text| raised_as_table(&text))
            })?;
            let returning = scope.create_function(move |lua, words: Variadic<Value>| {
                match carry_out(lua, shared, &words, read_only, &mut **host.borrow_mut())? {
                    Ok(value) => Ok(value),
                    Err(text) => error(lua, &text),
                }
            })?;
            self.doors.redis.raw_set("call", raising)?;
            self.doors.redis.raw_set("pcall", returning)?;
            let table = |words: &[&[u8]]| -> Result<Table, Error> {
                let table = self.lua.create_table_with_capacity(words.len(), 0)?;
                for (index, word) in words.iter().enumerate() {
                    table.raw_set(index + 1, self.lua.create_string(word)?)?;
                }
                Ok(table)
            };
            let (keys, args) = (table(call.keys)?, table(call.args)?);
            let (ok, value): (bool, Value) = match chunk {
                Chunk::Script => self.limited(|| self.doors.script.call((function, keys, args)))??,
                Chunk::Library => {
                    let name = self.lua.create_string(name)?;
                    self.limited(|| self.doors.call.call((function, name, keys, args)))??
                }
            };
            if self.shared.broken.get().is_some() || (!ok && self.shared.is_broken(&value)) {
                return Err(Error::runtime("a limit is broken"));
            }
            if !ok {
                let text = self.error_text(&value, Some(name))?;
                return Ok(Reply::Error(Failure::built(&text)));
            }
            Answering { shared: &self.shared, resp3: self.shared.resp3.get(), count: 0 }.reply(&value, 0)
        });
        outcome.map_err(|error| self.broken(&error).unwrap_or_else(|| machine(error)))
    }

    /// The text of an error that ended a script, and where it was, if the script's name is to be told.
    fn error_text(&self, value: &Value, name: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let Value::Table(told) = value else {
            return Ok([
                b"ERR ",
                &*self.lua.coerce_string(value.clone())?.map_or(Vec::new(), |text| text.as_bytes().to_vec()),
            ]
            .concat());
        };
        let field = |name: &str| -> Result<Option<Vec<u8>>, Error> {
            let value = told.raw_get::<Value>(name)?;
            Ok(self.lua.coerce_string(value)?.map(|text| text.as_bytes().to_vec()))
        };
        let mut text = field("err")?.unwrap_or_else(|| b"ERR unknown error".to_vec());
        if let (Some(name), Some(source), Some(line)) = (name, field("source")?, field("line")?) {
            text.extend([b" script: ", name, b", on ", &source, b":", &line, b"."].concat());
        }
        Ok(text)
    }
}

fn machine(error: Error) -> Broken {
    if is_memory(&error) { Broken::Bytes } else { Broken::Machine(error.to_string()) }
}

fn not_compiled(message: &str) -> Failure {
    Failure::built(format!("ERR Error compiling script (new function): {message}").as_bytes())
}

fn limit_failure(limit: Limit, is_metered: bool) -> Failure {
    Failure::Text(match limit {
        Limit::Instructions if is_metered => {
            "ERR the script took more than 50000000 units of work (instructions, and what library functions and commands go through); nothing that it did has happened: let several scripts do a part each"
        }
        Limit::Instructions => "ERR the script took more than 50000000 instructions; nothing that it did has happened",
        Limit::Bytes if is_metered => {
            "ERR the script used more than 67108864 bytes; nothing that it did has happened: let several scripts do a part each"
        }
        Limit::Bytes => "ERR the script used more than 67108864 bytes; nothing that it did has happened",
        Limit::Order => {
            "ERR the script goes through keys that are tables or functions, whose order differs from replica to replica; nothing that it did has happened"
        }
    })
}

/// What the table of registered functions says.
fn registered(value: &Value) -> Result<Vec<Registered>, Error> {
    let Value::Table(list) = value else { return Ok(Vec::new()) };
    list.sequence_values::<Table>()
        .map(|function| {
            let function = function?;
            let flags: Vec<LuaString> =
                function.raw_get::<Table>("flags")?.sequence_values().collect::<Result<_, _>>()?;
            Ok(Registered {
                name: function.raw_get::<LuaString>("name")?.as_bytes().to_vec(),
                description: function.raw_get::<Option<LuaString>>("description")?.map(|text| text.as_bytes().to_vec()),
                flags: flags.iter().map(|flag| flag.as_bytes().to_vec()).collect(),
            })
        })
        .collect()
}

/// What the prelude is given.
fn natives(lua: &Lua, shared: &Rc<Shared>) -> Result<Table, Error> {
    let natives = lua.create_table()?;
    for (name, calls) in [
        ("string", text::STRING),
        ("patterns", text::PATTERNS),
        ("math", maths::MATH),
        ("bit", maths::BIT),
        ("cjson", cjson::CJSON),
        ("cmsgpack", cmsgpack::CMSGPACK),
        ("struct", packing::STRUCT),
        ("redis", redis_api::REDIS),
    ] {
        natives.raw_set(name, natives_table(lua, shared, calls)?)?;
    }
    natives.raw_set("null", Value::NULL)?;
    natives.raw_set("version", VERSION)?;
    natives.raw_set("version_number", VERSION_NUMBER)?;
    let of = |shared: &Rc<Shared>| Rc::clone(shared);
    let owned = of(shared);
    let is_broken = move |_: &Lua, caught: Value| {
        // If this is too much, a limit is broken by now.
        let _ = owned.work(20);
        Ok(owned.is_broken(&caught))
    };
    natives.raw_set("broken", lua.create_function(is_broken)?)?;
    let owned = of(shared);
    let refuse_order = move |_: &Lua, (): ()| -> Result<(), Error> { Err(owned.break_limit(Limit::Order)) };
    natives.raw_set("refuse_order", lua.create_function(refuse_order)?)?;
    let owned = of(shared);
    natives.raw_set("charge", lua.create_function(move |_, instructions: f64| owned.spend(instructions as u64))?)?;
    natives.raw_set("told", lua.create_function(told)?)?;
    natives.raw_set("is_name", lua.create_function(|_, name: LuaString| Ok(is_name(&name.as_bytes())))?)?;
    let place = |lua: &Lua, (): ()| match position(lua, true) {
        Some((source, line)) => Ok((Some(lua.create_string(&source)?), Some(line as f64))),
        None => Ok((None, None)),
    };
    natives.raw_set("position", lua.create_function(place)?)?;
    Ok(natives)
}

const _: () = assert!(CODE_BYTES_MAX as u64 * 8 < BYTES_MAX, "a script of the greatest length can be compiled");
