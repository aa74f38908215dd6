//! The prompt: line editing, history, completion, hints.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::help::Documentation;
use super::session::{Session, is_named, is_quit};

/// Most lines of history.
const HISTORY_LINES_MAX: usize = 1000;

/// What the line editor asks while the user types.
struct Assistant {
    documentation: Documentation,
    names: Vec<String>,
}

/// Reads lines from the terminal and carries them out until the user leaves.
///
/// # Errors
/// When the terminal cannot be read or written.
pub(super) fn run(session: &mut Session) -> io::Result<bool> {
    let config = Config::builder()
        .max_history_size(HISTORY_LINES_MAX)
        .and_then(|config| config.history_ignore_dups(true))
        .map_err(io::Error::other)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .build();
    let mut editor: Editor<Assistant, DefaultHistory> = Editor::with_config(config).map_err(io::Error::other)?;
    let history = history_path();
    if let Some(path) = &history {
        // There is none the first time.
        let _ = editor.load_history(path);
    }
    // Says so if nothing answers; the prompt comes all the same, because the node may be about to start.
    let documentation = session.documentation().unwrap_or_default();
    let names = documentation.names().collect();
    editor.set_helper(Some(Assistant { documentation, names }));
    loop {
        match editor.readline(&session.prompt()) {
            Ok(line) => {
                let Ok(words) = wire::split_line(line.as_bytes()) else {
                    writeln!(io::stdout(), "Invalid argument(s)")?;
                    continue;
                };
                if words.is_empty() {
                    continue;
                }
                if !holds_password(&words) {
                    let _ = editor.add_history_entry(line.as_str());
                }
                if is_quit(&words) {
                    break;
                }
                if is_named(&words, "clear") && words.len() == 1 {
                    editor.clear_screen().map_err(io::Error::other)?;
                    continue;
                }
                // Not locked for longer: the line editor writes there too.
                session.run(&words, &mut io::stdout())?;
            }
            // Ctrl-C gives the line up.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    if let Some(path) = &history {
        let kept = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
        if let Err(error) = kept.and_then(|()| editor.save_history(path)) {
            eprintln!("The history could not be kept in {}: {error}", path.display());
        }
    }
    Ok(true)
}

/// Whether a line must not be kept.
fn holds_password(words: &[Vec<u8>]) -> bool {
    is_named(words, "auth")
        || (is_named(words, "hello") && words.iter().any(|word| word.eq_ignore_ascii_case(b"auth")))
        || (is_named(words, "config") && words.iter().any(|word| word.eq_ignore_ascii_case(b"requirepass")))
        || is_named(words, "acl")
}

/// `$XDG_STATE_HOME/dictum/cli_history`, by default in `~/.local/state`.
fn history_path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("dictum").join("cli_history"))
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        // `help` takes a name as well.
        let start = if typed.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("help ")) { 5 } else { 0 };
        let upper = typed[start..].to_uppercase();
        let found: Vec<String> = self.names.iter().filter(|name| name.starts_with(&upper)).cloned().collect();
        Ok((start, if upper.is_empty() { Vec::new() } else { found }))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        (position == line.len() && line.ends_with(' ')).then(|| self.documentation.hint(line))?
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[90m{hint}\x1b[0m"))
    }
}

impl Validator for Assistant {}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_kept() {
        let holds = |line: &str| holds_password(&wire::split_line(line.as_bytes()).expect("a line"));
        for line in ["auth secret", "AUTH default secret", "hello 3 auth default secret", "config set requirepass x"] {
            assert!(holds(line), "{line}");
        }
        assert!(!holds("set auth secret"));
        assert!(!holds("hello 3"));
    }
}
