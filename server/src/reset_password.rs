//! `dictum reset-password`: the way back into a cluster of which nobody has an administrator's password any more.
//!
//! Users stand in the council, so no single folder can change them. The command leaves an order in the folder of a stopped node ([`FILE`], for its owner alone). At its next
//! start the node says that order to the council, as its own, until it is done, and removes the file. Only those who may write the folder of a node can do that, and they
//! could do everything in the node's name anyway. The order has the password as the council keeps it: its SHA-256, or its hash under argon2id.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use storage::{Files, Identity, LoadedIdentity, ReadOnlyFolder};
use wire::{ReplyParser, Value, encode_command};

use crate::admission::next;
use crate::audit::{self, Entry};
use crate::bridge::Bridge;
use crate::cli::asked::end_or;
use crate::peer_tls::{self, Readers};
use crate::user::{NewPassword, Secret, rule_of};
use crate::{check, log};

/// The order, in a node's folder.
pub(crate) const FILE: &str = "reset-password";
/// While it is written.
const FILE_NEW: &str = "reset-password.tmp";
/// After an answer that says that the council could not be asked.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

const HELP: &str = "\
Users are the same at all nodes, so any node of the cluster will do. It is stopped for this; the others go on, and a majority of the cluster
has to be there when it starts again. Within a few seconds the user has the new password, at all nodes, and is on. Connections that it has
stay, and so do its rights. Add --admin where the user is gone, or has no rights any more.

This is for those who may write the node's folder. It stands in the node's audit trail.

Exit code: 0 the order is in the folder, 1 it is not.

Examples:
  dictum reset-password --user root /var/lib/dictum              shows a new password, once
  dictum reset-password --user rescue --admin /var/lib/dictum    a new user who may do everything";

/// Arguments of `dictum reset-password`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct ResetPasswordArguments {
    /// The folder of a node; it is stopped
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The user who gets another password; up to 256 bytes without spaces
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    user: String,
    /// The user may do everything from then on
    #[arg(long)]
    admin: bool,
    #[command(flatten)]
    password: NewPassword,
}

fn parse_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.len() <= 256 && !text.contains(|c: char| c.is_whitespace() || c == '\0');
    is_name.then(|| text.to_owned()).ok_or_else(|| "a user's name has 1 to 256 bytes, and no spaces".to_owned())
}

/// The order: the node says it to the council.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset {
    user: String,
    /// The password as it is kept: its SHA-256, or its hash under argon2id.
    digest: String,
    admin: bool,
}

impl Reset {
    fn read(bytes: &[u8]) -> Option<Reset> {
        let reset: Reset = serde_json::from_slice(bytes).ok()?;
        let digest = &reset.digest;
        let is_digest = digest.len() == 64 && digest.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_digest = is_digest || node::is_password_hash(digest);
        (is_digest && parse_name(&reset.user).is_ok()).then_some(reset)
    }

    /// For the audit trail.
    fn entry(&self) -> Entry {
        let fields = vec![
            ("admin", self.admin.into()),
            ("client", "the command dictum reset-password, on the stopped folder".into()),
            ("user", self.user.clone().into()),
        ];
        Entry::new("reset-password", fields)
    }

    fn words(&self) -> Vec<String> {
        let rules: &[&str] = if self.admin { &["reset", "on", "role=admin"] } else { &["on", "resetpass"] };
        let words = ["ACL", "SETUSER", &self.user].into_iter().chain(rules.iter().copied());
        words.map(str::to_owned).chain([rule_of(&self.digest)]).collect()
    }
}

/// Leaves the order in the folder.
#[must_use]
pub fn run(arguments: ResetPasswordArguments) -> ExitCode {
    end_or("dictum reset-password", leave(&arguments), "the order is in the folder all the same")
}

fn leave(arguments: &ResetPasswordArguments) -> Result<String, String> {
    let dir = &arguments.dir;
    let named = |text: String| format!("{}: {text}", dir.display());
    // A folder that is no node's stays as it is.
    let folder = ReadOnlyFolder::open(dir).map_err(check::refused)?;
    let identity = Identity::load(&folder).map_err(|error| named(format!("the identity cannot be read: {error}")))?;
    let LoadedIdentity::Found(Identity { name: node, .. }) = identity else {
        return Err(named("it does not say whose it is".to_owned()));
    };
    drop(folder);
    // Nobody else has the folder meanwhile.
    let _files = Files::open(dir).map_err(check::refused)?;
    let secret = Secret::choose(&arguments.password)?;
    let reset = Reset { user: arguments.user.clone(), digest: secret.kept().to_owned(), admin: arguments.admin };
    // Nothing is done that is not told.
    audit::note(dir, &node, reset.entry())?;
    write(dir, &reset).map_err(|error| named(format!("the order cannot be written: {error}")))?;
    let user = &reset.user;
    secret.show(user).map_err(|error| {
        format!("the order is in the folder, and its password cannot be shown: {error}. Run the command again: a later order takes the place of this one")
    })?;
    Ok(format!(
        "Start {node}: as soon as it reaches a majority of the cluster, {user} has the new password at all nodes.\n"
    ))
}

/// Whole or not at all. An earlier order is over.
fn write(dir: &Path, reset: &Reset) -> io::Result<()> {
    let new = dir.join(FILE_NEW);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    peer_tls::write_private(&new, &serde_json::to_vec(reset)?)?;
    fs::rename(&new, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

/// At a node's start: carries out the order in its folder, if there is one, on a thread of its own.
///
/// # Errors
/// There is no thread, or nothing to wait with.
pub(crate) fn carry_out(dir: &Path, bridge: Bridge) -> io::Result<()> {
    // A command that has not come to its end has left it: it is no order yet.
    let _ = fs::remove_file(dir.join(FILE_NEW));
    let path = dir.join(FILE);
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    let read = peer_tls::read_private(&path, Readers::Owner)
        .and_then(|bytes| Reset::read(&bytes).ok_or_else(|| "it is no order of dictum reset-password".to_owned()));
    let reset = match read {
        Ok(reset) => reset,
        Err(text) => {
            log::error(&format!(
                "{}: {text}. No password is changed: remove the file, or run the command again",
                path.display()
            ));
            return Ok(());
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let run = move || runtime.block_on(until_done(&path, &bridge, &reset));
    thread::Builder::new().name("resets-password".to_owned()).spawn(run).map(drop)
}

async fn until_done(path: &Path, bridge: &Bridge, reset: &Reset) {
    let user = &reset.user;
    let mut has_waited = false;
    // Once the node has closed the connection, the process ends: the next one goes on with the order.
    while let Some(outcome) = ask(bridge, reset).await {
        match outcome {
            Ok(()) => log::warning(&format!("the user {user:?} has the password of dictum reset-password")),
            // It is made, and holds where it can.
            Err(text) if text.starts_with(node::CHANGE_MADE) => log::warning(&text),
            Err(text) if is_for_later(&text) => {
                if !std::mem::replace(&mut has_waited, true) {
                    log::warning(&format!("the password of {user:?} is not changed yet, and tried again: {text}"));
                }
                // Nothing else runs on this thread.
                thread::sleep(AGAIN_AFTER);
                continue;
            }
            Err(text) => {
                log::error(&format!(
                    "the password of {user:?} could not be changed: {text}. It is tried again at the next start; remove {} if it shall not be",
                    path.display()
                ));
                return;
            }
        }
        let removed =
            fs::remove_file(path).and_then(|()| path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all()));
        if let Err(error) = removed {
            log::error(&format!(
                "{} cannot be removed, so the next start sets this password again: {error}",
                path.display()
            ));
        }
        return;
    }
}

/// True if the council could not be asked, or has not answered. The order may be carried out several times.
fn is_for_later(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or_default();
    ["CLUSTERDOWN", "UNKNOWN", "LOADING", "TRYAGAIN", "MISCONF"].contains(&code) || text.contains("came with version")
}

/// None if the node has closed the connection.
async fn ask(bridge: &Bridge, reset: &Reset) -> Option<Result<(), String>> {
    let mut connection = bridge.open("dictum reset-password");
    let mut words = Vec::new();
    encode_command(&mut words, reset.words());
    connection.send(words).await;
    match next(&mut connection, &mut ReplyParser::default()).await? {
        Value::Error(text) => Some(Err(text)),
        _ => Some(Ok(())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written_and_nothing_else_is() {
        let reset = Reset { user: "root".to_owned(), digest: "0a".repeat(32), admin: false };
        let bytes = serde_json::to_vec(&reset).expect("JSON");
        assert_eq!(Reset::read(&bytes), Some(reset.clone()));
        assert_eq!(reset.words().join(" "), format!("ACL SETUSER root on resetpass #{}", reset.digest));
        let admin = Reset { admin: true, ..reset.clone() };
        assert_eq!(admin.words().join(" "), format!("ACL SETUSER root reset on role=admin #{}", reset.digest));
        let text = String::from_utf8(bytes).expect("text");
        for wrong in [
            "",
            "{}",
            &text.replace("root", "ro ot"),
            &text.replace("root", ""),
            &text.replace("0a0a", "0a 0"),
            &text.replace("0a0a", "0a"),
            &text.replace("{", "{\"more\":1,"),
        ] {
            assert_eq!(Reset::read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_council_that_cannot_be_asked_is_asked_again() {
        assert!(is_for_later("CLUSTERDOWN no leader"));
        assert!(is_for_later("ERR a setting came with version 8"));
        assert!(!is_for_later("ERR Error in ACL SETUSER modifier"));
    }
}
