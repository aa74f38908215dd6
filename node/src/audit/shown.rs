//! Commands and names of clients as they stand in the audit trail: printable, short, without passwords.

/// Longest word that is kept whole, in bytes.
const WORD_BYTES_MAX: usize = 512;
/// Most bytes of the words of one order, as they are shown; the words behind these are counted.
const ORDER_BYTES_MAX: usize = 16 * 1024;

const REDACTED: &str = "(redacted)";

/// Bytes of a client: printable ASCII, everything else escaped.
pub(super) fn bytes(bytes: &[u8]) -> String {
    let (kept, rest) = bytes.split_at(bytes.len().min(WORD_BYTES_MAX));
    let quoted = wire::quote(kept);
    let mut text = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&quoted).to_owned();
    if !rest.is_empty() {
        text += &format!("... ({} more bytes)", rest.len());
    }
    text
}

/// True if these words are an order.
pub(super) fn is_order(words: &[&[u8]]) -> bool {
    let is = |place: usize, word: &str| words.get(place).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    match words.first().map_or(0, |name| name.len()) {
        3 => is(0, "acl") && (is(1, "setuser") || is(1, "deluser")),
        4 => is(0, "sync"),
        5 => is(0, "psync"),
        6 => is(0, "config") && is(1, "set"),
        7 => is(0, "flushdb") || is(0, "monitor"),
        8 => is(0, "flushall") || is(0, "shutdown"),
        11 if is(0, "dictum.node") => !["list", "settings", "help"].iter().any(|word| is(1, word)),
        11 => is(0, "dictum.once") && words.len() > 2 && is_order(&words[2..]),
        13 if is(0, "dictum.bucket") => ["create", "set", "drop"].iter().any(|word| is(1, word)),
        13 => is(0, "dictum.backup") && is(1, "open"),
        14 => is(0, "dictum.settime"),
        _ => false,
    }
}

/// True if a command of this name may be an order, or ends a transaction that may have one in it. Every command is asked, so the length of the name decides first.
pub(super) fn may_be_order(name: &[u8]) -> bool {
    let names: &[&str] = match name.len() {
        3 => &["acl"],
        4 => &["exec", "sync"],
        5 => &["psync"],
        6 => &["config"],
        7 => &["flushdb", "monitor"],
        8 => &["flushall", "shutdown"],
        11 => &["dictum.node", "dictum.once"],
        13 => &["dictum.bucket", "dictum.backup"],
        14 => &["dictum.settime"],
        _ => &[],
    };
    names.iter().any(|of| name.eq_ignore_ascii_case(of.as_bytes()))
}

/// True if the order changes the council's state, which costs its client a round of the nodes.
pub(super) fn is_of_council(order: &[String]) -> bool {
    // Not those about nodes: an operator may say many that change nothing.
    let names = ["acl", "config", "dictum.bucket"];
    order.first().is_some_and(|name| names.iter().any(|of| name.eq_ignore_ascii_case(of)))
}

/// An error as a client was told it. Rules of users are left out: a digest of a password may be among them.
pub(super) fn error(error: &data::Failure) -> String {
    let text = error.to_string();
    let cut = |text: &str, at: &str| text.split_once(at).map_or(text, |(start, _)| start).to_owned();
    bytes(cut(&cut(&text, " modifier '"), ", with args beginning with").as_bytes())
}

/// The words of an order as they are shown.
pub(super) fn order(words: &[&[u8]]) -> Vec<String> {
    if let [once, id, order @ ..] = words
        && once.eq_ignore_ascii_case(b"dictum.once")
    {
        let mut shown = vec![bytes(once), bytes(id)];
        shown.extend(self::order(order));
        return shown;
    }
    let is = |place: usize, word: &str| words.get(place).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    let is_rules = is(0, "acl") && is(1, "setuser");
    let is_settings = is(0, "config");
    let is_join = is(0, "dictum.node") && is(1, "join");
    let hides = |place: usize, word: &[u8]| match place {
        // Passwords and their digests. Other words of `ACL SETUSER` were found to be rules before they are shown (`refused`).
        3.. if is_rules => matches!(word.first(), Some(b'>' | b'<' | b'#' | b'!' | b'$')),
        3.. if is_settings && place % 2 == 1 => is_secret_setting(words[place - 1]),
        2 => is_join,
        _ => false,
    };
    let shown = words.iter().enumerate().map(|(place, word)| match hides(place, word) {
        true if is_rules => format!("{}{REDACTED}", char::from(word[0])),
        true => REDACTED.to_owned(),
        false => bytes(word),
    });
    let mut out: Vec<String> = Vec::new();
    let mut left = ORDER_BYTES_MAX;
    // The loop ends with the last word that is shown: an order may have hundreds of megabytes.
    for word in shown {
        if word.len() > left {
            out.push(format!("... ({} more words)", words.len() - out.len()));
            break;
        }
        left -= word.len();
        out.push(word);
    }
    out
}

/// The words of an order that was refused at once. What is no rule and no setting may be a password in the wrong place.
pub(super) fn refused(order: &mut Vec<String>) {
    let is = |place: usize, word: &str| order.get(place).is_some_and(|it| it.eq_ignore_ascii_case(word));
    let first = if is(0, "dictum.once") { 2 } else { 0 };
    if (is(first, "acl") || is(first, "config")) && order.len() > first + 3 {
        order.truncate(first + 3);
        order.push(REDACTED.to_owned());
    }
}

/// True if the value of the setting with this name is a secret.
fn is_secret_setting(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    [&b"pass"[..], b"auth", b"secret", b"token"]
        .iter()
        .any(|part| name.windows(part.len()).any(|window| window == *part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&[u8]> {
        text.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn orders_are_told_from_other_commands() {
        for text in [
            "ACL SETUSER ann on",
            "acl deluser ann",
            "CONFIG SET maxclients 5",
            "FlushAll",
            "flushdb ASYNC",
            "SHUTDOWN",
            "MONITOR",
            "SYNC",
            "PSYNC ? -1",
            "DICTUM.NODE REMOVE n3",
            "dictum.node token",
            "DICTUM.BUCKET CREATE shop",
            "DICTUM.ONCE id FLUSHALL",
            "DICTUM.SETTIME",
            "DICTUM.BACKUP OPEN",
        ] {
            assert!(is_order(&words(text)) && may_be_order(words(text)[0]), "{text}");
        }
        for text in [
            "GET a",
            "SET flushall 1",
            "ACL LIST",
            "ACL",
            "CONFIG GET *",
            "DICTUM.NODE LIST",
            "DICTUM.BUCKET LIST",
            "DICTUM.BACKUP NEXT",
            "DICTUM.ONCE id",
            "DICTUM.ONCE id SET a b",
            "FLUSHALLX",
            "",
        ] {
            assert!(!is_order(&words(text)), "{text}");
        }
        assert!(!is_order(&[]) && may_be_order(b"EXEC"));
    }

    #[test]
    fn no_password_is_shown() {
        let shown = |text: &str| order(&words(text)).join(" ");
        assert_eq!(
            shown("ACL SETUSER ann on >hunter2 <old #0123 !0123 ~a:* (+get ~b)"),
            "ACL SETUSER ann on >(redacted) <(redacted) #(redacted) !(redacted) ~a:* (+get ~b)"
        );
        assert_eq!(
            shown("CONFIG SET maxclients 5 requirepass hunter2"),
            "CONFIG SET maxclients 5 requirepass (redacted)"
        );
        assert_eq!(shown("DICTUM.NODE JOIN tok n4 host:1 5"), "DICTUM.NODE JOIN (redacted) n4 host:1 5");
        let mut wrong = order(&words("ACL SETUSER ann hunter2"));
        refused(&mut wrong);
        assert_eq!(wrong.join(" "), "ACL SETUSER ann (redacted)");
    }

    #[test]
    fn words_are_printable_and_bounded() {
        assert_eq!(order(&[b"FLUSHALL", b"\x1b[31m\n\xff\""]), ["FLUSHALL", "\\x1b[31m\\n\\xff\\\""]);
        let long = vec![0_u8; 100_000];
        assert!(bytes(&long).len() < 4 * WORD_BYTES_MAX + 30);
        let many: Vec<&[u8]> = std::iter::repeat_n(&long[..500], 1000).collect();
        let shown = order(&many);
        assert!(shown.iter().map(String::len).sum::<usize>() < ORDER_BYTES_MAX + 200);
        assert!(shown.last().is_some_and(|last| last.contains(" more words)")));
    }
}
