//! `dictum reset-password`: the way back in when nobody has an administrator's password any more.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::tempdir;
use wire::Value;

use crate::common::{Client, dictum, eventually, failure, output, wait_for};
use crate::roles::{logged_in, password_file};
use crate::users::{alone, raised};

/// The new one, of more than twenty characters.
const PASSWORD: &str = "found-again-and-long-enough";

/// A connection of this user, or none if the password is wrong: once the node knows its users.
fn logs_in(resp: &str, user: &str, password: &str) -> Option<Client> {
    wait_for("an answer to a login", || {
        let mut client = Client::connect(resp).ok()?;
        match client.call(&["AUTH", user, password]).ok()? {
            reply if reply == Value::ok() => Some(Some(client)),
            reply if reply.as_error()?.starts_with("WRONGPASS") => Some(None),
            _ => None,
        }
    })
}

#[test]
fn the_password_of_an_administrator_is_reset_by_way_of_a_folder() {
    let outer = tempdir().expect("a folder");
    let folder = outer.path().join("n1");
    let dir = folder.to_str().expect("a path");
    let (node, [resp, _]) = alone(&folder, &[]);
    raised(&resp);
    for words in [
        &["ACL", "SETUSER", "root", "on", ">lost", "role=admin", "-flushall"][..],
        &["ACL", "SETUSER", "ann", "on", ">hers", "role=reader", "~*"],
        &["ACL", "SETUSER", "default", "off"],
    ] {
        assert_eq!(eventually(&resp, words), Value::ok(), "{words:?}");
    }
    let file = password_file(outer.path(), PASSWORD);
    let reset = |more: &[&str]| dictum(&[&["reset-password", "--new-password-file", &file, dir], more].concat());
    let text = failure(reset(&["--user", "root"]));
    assert!(text.contains("is in use by process") && text.contains("stop that node first"), "{text}");
    assert!(node.stop(), "it ends well");

    // A mistaken name and a folder of nobody.
    let text = failure(reset(&["--user", "ro ot"]));
    assert!(text.contains("no spaces"), "{text}");
    let text = failure(dictum(&["reset-password", "--user", "root", "--new-password-file", &file, "/nowhere"]));
    assert!(text.contains("/nowhere cannot be read"), "{text}");
    assert!(!folder.join("reset-password").exists());

    let said = output(reset(&["--user", "root"]));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let order = folder.join("reset-password");
    assert_eq!(fs::metadata(&order).expect("the order").permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&order).expect("text").contains(PASSWORD), "the password itself is nowhere");

    let (node, [resp, _]) = alone(&folder, &[]);
    let mut root = logged_in(&resp, "root", PASSWORD);
    wait_for("the order to be gone", || (!order.exists()).then_some(()));
    assert!(logs_in(&resp, "root", "lost").is_none(), "the lost password is wrong now");
    assert!(logs_in(&resp, "ann", "hers").is_some(), "others keep theirs");
    let refused = root.call(&["FLUSHALL"]).expect("a reply");
    assert!(refused.as_error().is_some_and(|text| text.starts_with("NOPERM")), "its rights are as before: {refused:?}");
    assert!(node.stop(), "it ends well");

    // Another one who may do everything; the order is done once.
    assert!(output(reset(&["--user", "rescue", "--admin"])).status.success());
    let (node, [resp, _]) = alone(&folder, &[]);
    let mut rescue = logged_in(&resp, "rescue", PASSWORD);
    wait_for("the order to be gone", || (!order.exists()).then_some(()));
    assert_eq!(rescue.call(&["ACL", "SETUSER", "default", "on", "nopass"]).expect("a reply"), Value::ok());
    assert!(node.stop(), "it ends well");

    // Both stand in the trail, without a password, and the trail is sound.
    let verified = output(dictum(&["audit", "verify", dir]));
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let trail: String = fs::read_dir(folder.join("audit"))
        .expect("the trail")
        .map(|file| fs::read_to_string(file.expect("a file").path()).expect("text"))
        .collect();
    for user in ["root", "rescue"] {
        let is_told =
            |line: &str| line.contains("\"kind\":\"reset-password\"") && line.contains(&format!("\"user\":\"{user}\""));
        assert!(trail.lines().any(is_told), "{user}");
    }
    assert!(!trail.contains(PASSWORD));

    // A file that is no order harms nobody.
    fs::write(&order, "{}").expect("a file");
    fs::set_permissions(&order, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let (node, [resp, _]) = alone(&folder, &[]);
    assert_eq!(eventually(&resp, &["SET", "k", "v"]), Value::ok());
    assert!(order.exists(), "it is left to its operator");
    assert!(node.stop(), "it ends well");
}
