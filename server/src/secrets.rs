//! Passwords and tokens: where they come from, and who else can see them there.
//!
//! Every user of a machine can read the arguments of every process (`ps`). A secret belongs into a
//! file (`--password-file`) or, in containers, into a variable of the environment.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use node::Logins;

/// Longest file, in bytes: a password is a line.
const FILE_BYTES_MAX: u64 = 4096;
/// Flags that carry a secret, and what to use instead.
const FLAGS: [(&str, &str); 4] = [
    ("--password", "--password-file FILE or the variable DICTUM_PASSWORD"),
    ("-a", "--password-file FILE or the variable DICTUM_PASSWORD"),
    ("--token", "the variable DICTUM_TOKEN, or `token` in the file for --config"),
    ("--from-password", "--from-password-file FILE or the variable DICTUM_FROM_PASSWORD"),
];
/// Permission to write for the group and for all others.
const OTHERS_WRITE: u32 = 0o022;
/// Permission to read for all others. A group may be meant: a service and its operators.
const OTHERS_READ: u32 = 0o004;

/// Warns on standard error of secrets among the arguments of this process.
pub fn warn_of_arguments(arguments: impl Iterator<Item = OsString>) {
    for (flag, instead) in flags_with_secrets(arguments) {
        eprintln!(
            "dictum: warning: every user of this machine can see what follows {flag}, in the list of processes. Use {instead}"
        );
    }
}

/// Those flags, each once. Words that follow a command of `dictum cli` are not flags, so that `-a` counts
/// for that command only before them.
fn flags_with_secrets(arguments: impl Iterator<Item = OsString>) -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let words: Vec<OsString> = arguments.skip(1).collect();
    let is_cli = words.first().is_some_and(|word| word == "cli");
    let is_worker = words.iter().any(|word| word == "--worker");
    let mut takes_value = false;
    for word in words.iter().skip(1).filter(|_| !is_worker) {
        let bytes = word.as_bytes();
        if is_cli && !bytes.starts_with(b"-") && !takes_value {
            break;
        }
        takes_value = is_cli
            && [
                &b"-h"[..],
                b"--host",
                b"-p",
                b"--port",
                b"--at",
                b"--cacert",
                b"--user",
                b"-a",
                b"--password",
                b"--password-file",
            ]
            .contains(&bytes);
        for (flag, instead) in FLAGS {
            let rest = bytes.strip_prefix(flag.as_bytes());
            let is_given = if flag == "-a" {
                is_cli && rest.is_some()
            } else {
                rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
            };
            if is_given && !found.iter().any(|(known, _)| *known == flag) {
                found.push((flag, instead));
            }
        }
    }
    found
}

/// The password of a command: that of the file, if one is named.
///
/// # Errors
/// As [`read_file`].
pub(crate) fn choose(password: Option<String>, file: Option<&PathBuf>) -> Result<Option<String>, String> {
    file.map_or(Ok(password), |path| read_file(path).map(Some))
}

/// The user and the password by which a command logs in at a node.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: Option<String>,
    password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

impl Login {
    /// That of a user, or of `default`; none without a password.
    pub(crate) fn new(user: Option<String>, password: Option<String>) -> Option<Login> {
        password.map(|password| Login { user, password })
    }

    /// As the flags of a command say: the password of the file, if one is named.
    ///
    /// # Errors
    /// As [`read_file`], and if a user is named without a password.
    pub(crate) fn choose(
        user: Option<String>,
        password: Option<String>,
        file: Option<&PathBuf>,
    ) -> Result<Option<Login>, String> {
        let login = Login::new(user.clone(), choose(password, file)?);
        match (user, &login) {
            (Some(user), None) => {
                Err(format!("the user {user} needs a password: --password-file FILE, or the variable DICTUM_PASSWORD"))
            }
            _ => Ok(login),
        }
    }

    /// The command that shows it.
    pub(crate) fn words(&self) -> Vec<&str> {
        [Some("AUTH"), self.user.as_deref(), Some(&self.password)].into_iter().flatten().collect()
    }

    /// The name of the user, for texts.
    pub(crate) fn name(&self) -> &str {
        self.user.as_deref().unwrap_or("default")
    }
}

/// The password that the environment brings to a node: of `DICTUM_PASSWORD_FILE`, or `DICTUM_PASSWORD`.
pub(crate) fn of_environment() -> Result<Option<String>, String> {
    let set = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    choose(set("DICTUM_PASSWORD"), set("DICTUM_PASSWORD_FILE").map(PathBuf::from).as_ref())
}

/// The password of this node, which may change while it runs.
#[derive(Clone, Default)]
pub struct Password(Arc<Mutex<Option<Arc<str>>>>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// That, or none.
    pub fn new(password: Option<String>) -> Password {
        Password(Arc::new(Mutex::new(password.map(Arc::from))))
    }

    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, password: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::from(password));
    }
}

/// The users of the node, for HTTP, which lets clients in itself; none until somebody has changed users.
#[derive(Clone, Debug, Default)]
pub struct SharedLogins(Arc<Mutex<Option<Arc<Logins>>>>);

impl SharedLogins {
    pub(crate) fn get(&self) -> Option<Arc<Logins>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, logins: Logins) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(logins));
    }
}

/// The secret in a file: its first line.
///
/// A file that others can read is taken, with a warning: secrets that Kubernetes mounts are so. One that
/// others can write is refused, because they choose the password.
///
/// # Errors
/// When the file cannot be read, is empty, too long, no text, or can be written by others. The text says which.
pub fn read_file(path: &Path) -> Result<String, String> {
    let named = path.display();
    let failed = |error: std::io::Error| format!("the password file {named} cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_file() && metadata.mode() & OTHERS_WRITE != 0 {
        return Err(format!(
            "the password file {named} can be written by other users, who could put their own password there: chmod 600 {named}"
        ));
    }
    warn_if_readable(path, &metadata);
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "the password file {named} is longer than {FILE_BYTES_MAX} bytes; its first line is to be the password"
        ));
    }
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(format!("the password file {named} begins with an empty line; its first line is to be the password")),
    }
}

/// As [`read_file`], while the node runs.
///
/// # Errors
/// Those, and if it is no plain file: a pipe that nobody writes to would keep this thread, which waits for the signal to stop, too.
pub(crate) fn read_again(path: &Path) -> Result<String, String> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => {
            Err(format!("the password file {} is no plain file and is read at the start only", path.display()))
        }
        _ => read_file(path),
    }
}

/// Warns if every user of the machine can read a file that holds a secret.
pub(crate) fn warn_of_readers(path: &Path) {
    if let Ok(metadata) = path.metadata() {
        warn_if_readable(path, &metadata);
    }
}

fn warn_if_readable(path: &Path, metadata: &Metadata) {
    if metadata.is_file() && metadata.mode() & OTHERS_READ != 0 {
        let path = path.display();
        eprintln!(
            "dictum: warning: every user of this machine can read {path}, which holds a secret: chmod 600 {path}"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn flags(line: &str) -> Vec<&'static str> {
        let words = line.split(' ').map(OsString::from);
        flags_with_secrets(words).into_iter().map(|(flag, _)| flag).collect()
    }

    #[test]
    fn secrets_among_the_arguments_are_found() {
        assert_eq!(flags("dictum start --password x --token=y --password z"), ["--password", "--token"]);
        assert_eq!(flags("dictum cli -p 7002 -a x get a"), ["-a"]);
        assert_eq!(flags("dictum cli -asecret"), ["-a"]);
        assert_eq!(flags("dictum cli --at a:1,b:1 -a x get a"), ["-a"]);
        assert_eq!(flags("dictum cli --cacert ca.pem --user ann -a x get a"), ["-a"]);
        assert_eq!(flags("dictum import --from a:1 --from-password x"), ["--from-password"]);
        for line in [
            "dictum start --password-file x",
            "dictum cli -p 7002 set --password x",
            "dictum cli get -a",
            "dictum status --at a:1",
            "dictum start --password x --worker 2",
        ] {
            assert_eq!(flags(line), Vec::<&str>::new(), "{line}");
        }
    }

    #[test]
    fn a_password_file_is_its_first_line_and_nobody_else_may_write_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        let with = |text: &str, mode: u32| {
            write(&path, text).expect("a file");
            set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            read_file(&path)
        };
        assert_eq!(with("secret\n", 0o600), Ok("secret".to_owned()));
        assert_eq!(with("a b \r\nsecond\n", 0o640), Ok("a b ".to_owned()));
        assert_eq!(with("secret", 0o444), Ok("secret".to_owned()), "as a container's secrets are");
        for mode in [0o620, 0o602, 0o666] {
            assert!(with("secret", mode).is_err_and(|text| text.contains("chmod 600")), "{mode:o}");
        }
        for text in ["", "\n", "\nsecret"] {
            assert!(with(text, 0o600).is_err_and(|text| text.contains("empty line")), "{text:?}");
        }
        assert!(with(&"x".repeat(5000), 0o600).is_err_and(|text| text.contains("longer")));
        assert!(read_file(&folder.path().join("none")).is_err_and(|text| text.contains("cannot be read")));
        assert_eq!(choose(Some("x".to_owned()), None), Ok(Some("x".to_owned())));
        write(&path, "of the file").expect("a file");
        assert_eq!(choose(Some("x".to_owned()), Some(&path)), Ok(Some("of the file".to_owned())));
    }

    #[test]
    fn a_user_has_a_password() {
        let login = |user: Option<&str>, password: Option<&str>| {
            Login::choose(user.map(str::to_owned), password.map(str::to_owned), None)
        };
        assert_eq!(login(None, None), Ok(None));
        let words = |login: Result<Option<Login>, String>| login.expect("right").expect("a login").words().join(" ");
        assert_eq!(words(login(None, Some("secret"))), "AUTH secret");
        assert_eq!(words(login(Some("ann"), Some("secret"))), "AUTH ann secret");
        assert!(login(Some("ann"), None).is_err_and(|text| text.contains("ann needs a password: --password-file")));
        assert_eq!(format!("{:?}", login(Some("ann"), Some("secret"))), "Ok(Some(Login))");
    }

    #[test]
    fn what_could_keep_the_reader_is_not_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let said = read_again(&path).expect_err("it is no file");
        assert!(said.contains("is no plain file and is read at the start only"), "{said}");
        std::fs::remove_file(&path).expect("it was there");
        write(&path, "secret\n").expect("a file");
        set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        assert_eq!(read_again(&path).as_deref(), Ok("secret"));
    }
}
