//! Libraries of functions (`FUNCTION LOAD`): what their first line says.

use crate::failure::Failure;

/// The first line of a library or of a script: `#!lua name=… flags=…`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shebang {
    /// The script only reads.
    pub no_writes: bool,
    /// It may run where there is no room.
    pub allow_oom: bool,
}

/// The first line, if it begins as one that says how a script is to be run.
fn shebang(code: &[u8]) -> Option<(&[u8], bool)> {
    code.starts_with(b"#!").then(|| match memchr::memchr(b'\n', code) {
        Some(end) => (&code[..end], true),
        None => (code, false),
    })
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

fn refused(before: &str, word: &[u8], after: &str) -> Failure {
    Failure::built(&[b"ERR ", before.as_bytes(), word, after.as_bytes()].concat())
}

/// What the first line of a script says, and the rest; a script needs none.
pub(crate) fn script_head(body: &[u8]) -> Result<Shebang, Failure> {
    let mut said = Shebang::default();
    let Some((line, is_whole)) = shebang(body) else { return Ok(said) };
    if !is_whole {
        return Err(Failure::Text("ERR Invalid script shebang"));
    }
    let mut words = words(line);
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(refused("Unexpected engine in script shebang: ", engine, ""));
    }
    for word in words {
        let Some(flags) = word.strip_prefix(b"flags=") else {
            return Err(refused("Unknown lua shebang option: ", word, ""));
        };
        for flag in flags.split(|byte| *byte == b',').filter(|flag| !flag.is_empty()) {
            match flag {
                b"no-writes" => said.no_writes = true,
                b"allow-oom" => said.allow_oom = true,
                b"allow-stale" | b"no-cluster" | b"allow-cross-slot-keys" => {}
                other => return Err(refused("Unexpected flag in script shebang: ", other, "")),
            }
        }
    }
    Ok(said)
}

/// The code behind the first line, if that says how to run it. Line numbers stay as they are.
pub(crate) fn without_head(code: &[u8]) -> &[u8] {
    shebang(code).map_or(code, |(line, _)| &code[line.len()..])
}

/// The name of a library, by its first line.
pub(crate) fn library_name(code: &[u8]) -> Result<&[u8], Failure> {
    let Some((line, true)) = shebang(code) else {
        return Err(Failure::Text(if shebang(code).is_some() {
            "ERR Invalid library metadata"
        } else {
            "ERR Missing library metadata"
        }));
    };
    let mut words = words(line);
    let engine = words.next().unwrap_or_default();
    let mut name = None;
    for word in words {
        match word.strip_prefix(b"name=") {
            Some(_) if name.is_some() => {
                return Err(Failure::Text("ERR Invalid metadata value, name argument was given multiple times"));
            }
            Some(said) => name = Some(said),
            None => return Err(refused("Invalid metadata value given: ", word, "")),
        }
    }
    let name = name.ok_or(Failure::Text("ERR Library name was not given"))?;
    if !is_name(name) {
        return Err(Failure::Text(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ));
    }
    let engine = engine.strip_prefix(b"#!").unwrap_or(engine);
    if engine.eq_ignore_ascii_case(b"lua") { Ok(name) } else { Err(refused("Engine '", engine, "' not found")) }
}

/// Whether libraries and functions may be called so.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A function of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is for, if that is said.
    pub description: Option<Vec<u8>>,
    /// Its flags, in their order.
    pub flags: Vec<Vec<u8>>,
}

impl Registered {
    /// Whether it only reads.
    pub(crate) fn no_writes(&self) -> bool {
        self.flags.iter().any(|flag| flag == b"no-writes")
    }

    /// Whether it may run where there is no room.
    pub(crate) fn allows_oom(&self) -> bool {
        self.flags.iter().any(|flag| flag == b"allow-oom")
    }
}
