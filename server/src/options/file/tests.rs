//! No complaint about a file speaks the parser's words, and each has the line and the way out.

use super::*;

fn said(text: &str) -> String {
    let said = parse(text).expect_err(text).to_string();
    for strange in ["invalid", "expected", "duplicate key", "unknown field", "unknown variant", "u16", "u64", "TOML"] {
        assert!(!said.contains(strange), "{strange} stands in: {said}");
    }
    said
}

#[test]
fn a_value_of_another_type_is_answered_with_the_wanted_one() {
    for (text, right) in [
        ("\n\nresp = 7001", "3: resp = 7001: an address like \"127.0.0.1:7001\" is wanted (in quotes)"),
        ("resp = true", "1: resp = true: an address like \"127.0.0.1:7001\" is wanted (in quotes)"),
        ("peer = [1,\n 2]", "1: peer = [1, 2]: an address like \"0.0.0.0:9001\" is wanted (in quotes)"),
        ("zone = 1979-05-27", "1: zone = 1979-05-27: a name like \"rack-1\" is wanted (in quotes)"),
        ("databases = \"x\"", "1: databases = \"x\": a whole number like 16 is wanted (without quotes)"),
        ("workers = 1.5", "1: workers = 1.5: a whole number like 1 is wanted (without quotes)"),
        (
            "databases = 70000",
            "1: databases = 70000: this number is out of range, a whole number like 16 is wanted (without quotes)",
        ),
        (
            "maxclients = -1",
            "1: maxclients = -1: this number is out of range, a whole number like 10000 is wanted (without quotes)",
        ),
        (
            "node = \"n1\"\n[resp]\nport = 7001",
            "2: resp: an address like \"127.0.0.1:7001\" is wanted (in quotes), and not a section or a table",
        ),
        (
            "dir = { path = \"/x\" }",
            "1: dir: the path of a folder like \"/var/lib/dictum\" is wanted (in quotes), and not a section or a table",
        ),
        (
            "value-bytes-max = true",
            "1: value-bytes-max = true: a number of bytes, or a size like \"16MiB\" is wanted (in quotes)",
        ),
        (
            "request-timeout = -3",
            "1: request-timeout = -3: a number of seconds, or a length of time like \"5s\" is wanted (in quotes)",
        ),
        ("insecure = true", "1: insecure = true: \"yes\" or \"no\" is wanted (in quotes)"),
        ("log-format = \"xml\"", "1: log-format = \"xml\": \"text\" or \"json\" is wanted (in quotes)"),
        ("password = 12345", "1: password: a text like \"a long one\" is wanted (in quotes)"),
    ] {
        assert_eq!(said(text), right, "{text}");
    }
}

#[test]
fn every_setting_speaks_so_for_every_type() {
    for arg in settings() {
        let name = name_of(&arg);
        let strange: &[&str] =
            &["true", "1.5", "[1]", "{ a = 1 }", "1979-05-27", "-1", "99999999999999999999999", "x", "\"x"];
        let mistyped = if is_number(name) { "\"x\"" } else { "[\"x\"]" };
        for value in strange.iter().chain([&mistyped]) {
            let said = said(&format!("# a comment\n{name} = {value}\n"));
            let is_answered = said.contains("wanted (in quotes)") || said.contains("wanted (without quotes)");
            assert!(said.starts_with(&format!("2: {name}")) && is_answered, "{said}");
        }
    }
}

#[test]
fn what_is_no_setting_is_named_with_the_one_that_is_meant() {
    for (text, right) in [
        ("node = \"n1\"\nlog_level = \"info\"", "2: there is no setting log_level; log-level is perhaps meant"),
        ("Resp = 1", "1: there is no setting Resp; resp is perhaps meant"),
        ("passwrod = \"geheim\"", "1: there is no setting passwrod; password is perhaps meant"),
        ("members = \"x\"", "1: there is no setting members; dictum start --print-config prints all settings"),
        ("nodes = 3", "1: there is no setting nodes; node is perhaps meant"),
        (
            "[server]\nresp = \"127.0.0.1:7001\"",
            "1: server is a section or a table, and this file has none: each setting is a line NAME = VALUE; dictum start --print-config prints all settings",
        ),
    ] {
        assert_eq!(said(text), right, "{text}");
    }
}

#[test]
fn what_is_malformed_is_named_by_its_line() {
    const RESP: &str = "an address like \"127.0.0.1:7001\" is wanted (in quotes)";
    for (text, right) in [
        ("resp = 127.0.0.1:7001\nnode = \"n1\"", format!("1: resp = 127.0.0.1:7001: {RESP}")),
        ("node = \"n1\"\nresp =\n", format!("2: resp = : {RESP}")),
        ("node = \"n1\"\nresp = \"127.0.0.1:7001\n\n", format!("2: resp = \"127.0.0.1:7001: {RESP}")),
        ("resp", format!("1: resp: {RESP}")),
        ("password = geheim", "1: password: a text like \"a long one\" is wanted (in quotes)".to_owned()),
        (
            "resp = \"a:1\"\n# between\nresp = \"b:1\"",
            "3: resp stands here for the second time, first in line 1; leave one of them".to_owned(),
        ),
        (
            "node = \"n1\"\nnode n2 geheim\n",
            format!("2: this line is no setting; write NAME = VALUE, for example node = \"n1\"; {SEE}"),
        ),
        ("= 3", format!("1: this line is no setting; write NAME = VALUE, for example node = \"n1\"; {SEE}")),
        ("[", format!("1: this line is no setting; write NAME = VALUE, for example node = \"n1\"; {SEE}")),
    ] {
        assert_eq!(said(text), right, "{text}");
    }
    assert!(!said("passwort: geheim").contains("geheim"), "a line that may be a secret is not repeated");
}

#[test]
fn a_complaint_about_a_value_of_the_file_has_its_line() {
    let text = "node = \"n1\"\nzone = \"a b\"\n";
    let check = |file: File| match file.zone {
        Some(zone) => Err(format!("--zone: {zone:?} is wrong")),
        None => Ok(()),
    };
    let reason = || check(parse(text).expect("it can be read")).expect_err("it is wrong");
    assert_eq!(blame((Path::new("/f"), text), reason(), check), "/f:2: --zone: \"a b\" is wrong");
    let by_flag = |_: File| Err::<(), _>("--zone: \"a b\" is wrong".to_owned());
    assert_eq!(blame((Path::new("/f"), text), reason(), by_flag), "--zone: \"a b\" is wrong", "a flag beats the file");
}
