//! Settings that say who may come in: protected mode, and web pages over HTTP.

/// The values of `--protected-mode` and `--insecure`.
pub(super) const YES_OR_NO: [&str; 2] = ["yes", "no"];
/// Most names, and most origins.
const COUNT_MAX: usize = 256;

pub(super) fn protected_mode(given: Option<String>) -> Result<bool, String> {
    yes_or_no("--protected-mode", given, true)
}

pub(super) fn insecure(given: Option<String>) -> Result<bool, String> {
    yes_or_no("--insecure", given, false)
}

fn yes_or_no(flag: &str, given: Option<String>, default: bool) -> Result<bool, String> {
    match given.as_deref() {
        None => Ok(default),
        Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(other) => Err(format!("{flag} {other:?}: write yes or no")),
    }
}

/// The items of a list with commas.
fn items(flag: &str, given: Option<String>) -> Result<Vec<String>, String> {
    let text = given.unwrap_or_default();
    let items: Vec<String> = text.split(',').map(|item| item.trim().to_owned()).filter(|it| !it.is_empty()).collect();
    if items.len() > COUNT_MAX { Err(format!("{flag}: at most {COUNT_MAX}")) } else { Ok(items) }
}

pub(super) fn hosts(given: Option<String>) -> Result<Vec<String>, String> {
    let items = items("--http-host", given)?;
    let is_name = |item: &&String| {
        let name = item.strip_prefix('*').map_or(item.as_str(), |end| end.strip_prefix('.').unwrap_or(end));
        let is_all = item.as_str() == "*";
        is_all || (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)))
    };
    match items.iter().find(|item| !is_name(item)) {
        Some(wrong) => {
            Err(format!("--http-host {wrong:?}: write a name without a port, for example db1.example or *.example"))
        }
        None => Ok(items),
    }
}

pub(super) fn origins(given: Option<String>) -> Result<Vec<String>, String> {
    let items = items("--http-origin", given)?;
    let is_origin = |item: &&String| {
        let rest =
            item.split_once("://").map(|(scheme, rest)| (!scheme.is_empty()).then_some(rest)).unwrap_or_default();
        rest.is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#*@".contains(&byte))
        })
    };
    match items.iter().find(|item| !is_origin(item)) {
        Some(wrong) => Err(format!(
            "--http-origin {wrong:?}: write it as a browser does, for example https://app.example or http://localhost:3000, without a path"
        )),
        None => Ok(items),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_and_origins_may_be() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            hosts(text("db1.example, *.db.example,*")),
            Ok(["db1.example", "*.db.example", "*"].map(str::to_owned).to_vec())
        );
        assert_eq!((hosts(None), origins(text(""))), (Ok(vec![]), Ok(vec![])));
        for wrong in ["db1:8001", "http://db1", "a/b", "a b", "*.", "a*"] {
            assert!(hosts(text(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(origins(text("https://app.example,http://localhost:3000")).map(|it| it.len()), Ok(2));
        for wrong in
            ["null", "*", "app.example", "https://", "https://app.example/", "https://*.example", "://a", "https://a@b"]
        {
            assert!(origins(text(wrong)).is_err(), "{wrong}");
        }
        assert_eq!((protected_mode(None), protected_mode(text("no"))), (Ok(true), Ok(false)));
        assert!(protected_mode(text("maybe")).is_err());
    }
}
