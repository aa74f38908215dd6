//! Roles, `dictum user`, and who the commands of the command line say they are: real nodes and the real program.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::tempdir;
use wire::Value;

use crate::common::{Client, Dev, dictum, failure, output, wait_for};
use crate::users::raised;

/// A file with a password, for its owner alone.
pub fn password_file(folder: &Path, password: &str) -> String {
    let path = folder.join(format!("{password}.password"));
    fs::write(&path, format!("{password}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    path.to_str().expect("it is text").to_owned()
}

fn printed(words: &[&str]) -> String {
    let output = output(dictum(words));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

pub fn logged_in(resp: &str, user: &str, password: &str) -> Client {
    wait_for("the login", || {
        let mut client = Client::connect(resp).ok()?;
        (client.call(&["AUTH", user, password]).ok()? == Value::ok()).then_some(client)
    })
}

#[test]
fn users_are_added_shown_changed_and_removed_by_the_command_line() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dev"), &[]);
    let [at, other] = [dev.nodes[0].resp.clone(), dev.nodes[1].resp.clone()];
    raised(&at);
    let file = |password: &str| password_file(folder.path(), password);
    let user = |words: &[&str]| printed(&[&["user"], words, &["--at", &at]].concat());
    let refused = |words: &[&str]| failure(dictum(&[&["user"], words, &["--at", &at]].concat()));

    printed(&["bucket", "create", "shop", "--at", &at]);
    let first = file("first");
    let add = ["add", "ann", "--role", "writer", "--bucket", "shop", "--keys", "cart:*", "--read-keys", "stock:*"];
    let more = ["--channels", "news", "--rule", "-del", "--new-password-file", &first, "--json"];
    let made: Json = serde_json::from_str(&user(&[&add[..], &more].concat())).expect("JSON");
    let fields =
        ["name", "on", "no_password", "passwords", "role", "rules", "keys", "channels", "buckets", "selectors"];
    let seen: Vec<Json> = fields.map(|field| made[field].clone()).to_vec();
    let (keys, buckets) = (json!(["~cart:*", "%R~stock:*"]), json!(["bucket=shop"]));
    let all =
        [json!("ann"), json!(true), json!(false), json!(1), json!("writer"), json!("-del"), keys, json!(["&news"])];
    assert_eq!(seen, [&all[..], &[buckets, json!([])]].concat());

    // It is a user of the whole cluster, and may do that and no more.
    let mut ann = logged_in(&other, "ann@shop", "first");
    let mut says = |words: &[&str]| ann.call(words).expect("a reply");
    assert_eq!(says(&["SET", "cart:1", "v"]), Value::ok());
    for words in [&["SET", "stock:1", "v"][..], &["GET", "x"], &["DEL", "cart:1"], &["CONFIG", "GET", "*"]] {
        let reply = says(words);
        assert!(reply.as_error().is_some_and(|error| error.starts_with("NOPERM")), "{words:?}: {reply:?}");
    }
    let table = user(&["list"]);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(
        row("ann").contains("writer") && row("ann").contains("shop") && row("default").contains("admin"),
        "{table}"
    );
    assert!(user(&["show", "ann"]).contains("writer -del"));

    // Another password, with the first one for a while, and without it.
    let passwd = |name: &str, more: &[&str]| {
        let path = file(name);
        user(&[&["passwd", "ann", "--new-password-file", &path][..], more].concat())
    };
    assert!(passwd("second", &["--keep"]).contains("2 passwords"));
    logged_in(&at, "ann", "first");
    logged_in(&at, "ann", "second");
    assert!(passwd("third", &[]).contains("writer -del"));
    logged_in(&at, "ann", "third");
    let wrong = Client::connect(&at).expect("it listens").call(&["AUTH", "ann", "first"]).expect("a reply");
    assert!(wrong.as_error().is_some_and(|error| error.starts_with("WRONGPASS")), "{wrong:?}");

    // What is wrong is said, and nothing is changed by it.
    assert!(
        refused(&["add", "ann", "--role", "reader", "--keys", "*", "--new-password-file", &first]).contains("already")
    );
    assert!(refused(&["add", "bob", "--role", "boss", "--new-password-file", &first]).contains("viewer"));
    assert!(refused(&["add", "bob", "--role", "writer", "--new-password-file", &first]).contains("--keys '*'"));
    let bad_rule = ["add", "bob", "--role", "viewer", "--rule", "+nosuch", "--new-password-file", &first];
    assert!(refused(&bad_rule).contains("Error in ACL SETUSER modifier '+nosuch'"));
    assert!(refused(&["add", "bob", "--role", "viewer"]).contains("there is no terminal"));
    assert!(refused(&["show", "bob"]).contains("there is no user bob"));
    assert!(refused(&["passwd", "bob", "--new-password-file", &first]).contains("there is no user bob"));
    assert_eq!(user(&["remove", "ann"]), "ann is removed\n");
    assert!(refused(&["remove", "ann"]).contains("there is no user ann"));
}

#[test]
fn a_role_gives_what_it_says_at_a_node_and_commands_log_in_as_their_user() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dev"), &["--nodes", "1"]);
    let at = dev.nodes[0].resp.clone();
    raised(&at);
    let mut root = Client::connect(&at).expect("it listens");
    let mut must = |words: &[&str]| {
        let reply = root.call(words).expect("a reply");
        assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
        reply
    };
    for role in node::ROLES {
        must(&["ACL", "SETUSER", role, "on", ">secret", "~app:*", &format!("role={role}")]);
        let told = must(&["ACL", "GETUSER", role]);
        assert!(!format!("{told:?}").contains("role="), "plain rules: {told:?}");
    }
    must(&["ACL", "SETUSER", "root", "on", ">secret", "role=admin"]);
    let categories = must(&["ACL", "CAT"]);
    assert!(categories.as_array().expect("a list").contains(&Value::bulk("administration")));
    let administration = must(&["ACL", "CAT", "administration"]);
    let administration = administration.as_array().expect("a list");
    for name in ["dictum.node|token", "dictum.bucket|drop", "config|set", "shutdown", "monitor", "client|pause"] {
        assert!(administration.contains(&Value::bulk(name)), "{name}");
    }
    assert!(!administration.contains(&Value::bulk("role")) && !administration.contains(&Value::bulk("client|list")));
    let reply = Client::connect(&at).expect("it listens").call(&["ACL", "SETUSER", "x", "role=boss"]).expect("a reply");
    let what = "'role=boss': Unknown role: there are viewer, reader, writer, operator and admin";
    assert!(reply.as_error().is_some_and(|error| error.contains(what)), "{reply:?}");

    // The ways in which an operator could become an administrator.
    let mut operator = logged_in(&at, "operator", "secret");
    for words in [
        &["ACL", "SETUSER", "operator", "+@all"][..],
        &["ACL", "LIST"],
        &["CONFIG", "SET", "requirepass", ""],
        &["CONFIG", "SET", "protected-mode", "no"],
        &["DICTUM.NODE", "TOKEN"],
        &["DICTUM.BACKUP", "OPEN", "0"],
        &["EVAL", "return redis.call('acl', 'list')", "0"],
        &["FUNCTION", "LOAD", "x"],
        &["MIGRATE", "127.0.0.1", "1", "app:k", "0", "1"],
        &["RESTORE", "app:k", "0", "x"],
        &["DEBUG", "SLEEP", "0"],
        &["MONITOR"],
        &["SHUTDOWN"],
        &["GET", "app:k"],
    ] {
        let reply = operator.call(words).expect("a reply");
        assert!(reply.as_error().is_some_and(|error| error.starts_with("NOPERM")), "{words:?}: {reply:?}");
    }
    for words in [&["DICTUM.NODE", "PAUSE"][..], &["DICTUM.NODE", "RESUME"], &["CLIENT", "LIST"], &["INFO"]] {
        let reply = operator.call(words).expect("a reply");
        assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
    }
    // Secrets among the settings are no operator's.
    let secrets = ["CONFIG", "GET", "requirepass", "masterauth", "tls-*-pass", "port"];
    let settings = |reply: Value| match reply {
        Value::Array(all) => all.len() / 2,
        Value::Map(all) => all.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(settings(operator.call(&secrets).expect("a reply")), 1, "the port alone");
    assert!(settings(must(&secrets)) > 3);

    // `default` is closed: every command says who it is.
    let secret = password_file(folder.path(), "secret");
    let mut root = logged_in(&at, "root", "secret");
    assert_eq!(root.call(&["ACL", "SETUSER", "default", "off"]).expect("a reply"), Value::ok());
    let as_user = |user: &str, words: &[&str]| {
        dictum(&[words, &["--at", &at, "--user", user, "--password-file", &secret]].concat())
    };
    for words in [&["status"][..], &["node", "list"], &["bucket", "list"]] {
        let done = output(as_user("viewer", words));
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(!output(dictum(&[words, &["--at", &at]].concat())).status.success(), "{words:?} as default");
    }
    let listed = output(as_user("root", &["user", "list"]));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for role in node::ROLES {
        let cells = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let row = listed.lines().map(cells).find(|cells| cells.first().is_some_and(|name| name == role));
        assert_eq!(row.as_ref().and_then(|cells| cells.get(2)).map(String::as_str), Some(role), "{listed}");
    }
    assert!(failure(as_user("operator", &["user", "list"])).contains("Users are for an admin"));
    assert!(failure(as_user("nobody", &["status"])).contains("refuses the password of the user nobody"));
    let mut command = dictum(&["status", "--at", &at, "--user", "root"]);
    assert!(failure(dictum(&["status", "--at", &at, "--user", "root"])).contains("root needs a password"));
    command.env("DICTUM_PASSWORD", "secret");
    assert!(output(command).status.success(), "of the environment");
    let cli = ["cli", "--at", &at, "--user", "writer", "--password-file", &secret];
    assert_eq!(printed(&[&cli[..], &["ACL", "WHOAMI"]].concat()).trim(), "writer");
    let copy = folder.path().join("copy");
    let copied = output(as_user("root", &["backup", copy.to_str().expect("text")]));
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
}
