//! Lua's patterns, as its library has them, but every step is counted: a pattern such as `.-.-.-x` takes time that grows with a power of the text's length.
//!
//! The rules are those of the reference manual of Lua 5.1, section 5.4.1.

use std::ops::Range;

/// Captures in one pattern.
const CAPTURES_MAX: usize = 32;
/// Items of a pattern that are tried inside each other.
const DEPTH_MAX: usize = 200;

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PatternError {
    /// The pattern means nothing; why.
    Malformed(&'static str),
    /// Too many steps.
    TooLong,
}

/// What a capture has caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caught {
    /// A part of the text.
    Text(usize, usize),
    /// `()`: a place, counted from 0.
    Place(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Capture {
    Open(usize),
    Place(usize),
    Closed(usize, usize),
}

/// One pattern and one text.
pub(crate) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    /// Steps that may still be taken.
    pub steps: u64,
    /// Looking through a set counts by its length. By the rules before budgets it was one step.
    counts_sets: bool,
    depth: usize,
}

type Found = Result<Option<usize>, PatternError>;

impl<'a> Matcher<'a> {
    /// Nothing is matched yet.
    pub(crate) fn new(text: &'a [u8], pattern: &'a [u8], steps: u64, counts_sets: bool) -> Matcher<'a> {
        Matcher { text, pattern, captures: Vec::new(), steps, counts_sets, depth: 0 }
    }

    /// The first place from `from` on where the pattern matches, or only there if it is `anchored`.
    pub(crate) fn search(&mut self, from: usize, anchored: bool) -> Result<Option<Range<usize>>, PatternError> {
        let mut at = from;
        while at <= self.text.len() {
            self.captures.clear();
            if let Some(end) = self.matches(at, 0)? {
                return Ok(Some(at..end));
            }
            if anchored {
                break;
            }
            at += 1;
        }
        Ok(None)
    }

    /// How many captures the last match has.
    pub(crate) fn captures_len(&self) -> usize {
        self.captures.len()
    }

    /// A capture of the last match; the whole of it, if the pattern has none and the first is asked for.
    pub(crate) fn capture(&self, index: usize, whole: &Range<usize>) -> Result<Caught, PatternError> {
        match self.captures.get(index) {
            Some(Capture::Closed(start, end)) => Ok(Caught::Text(*start, *end)),
            Some(Capture::Place(place)) => Ok(Caught::Place(*place)),
            Some(Capture::Open(_)) => Err(PatternError::Malformed("unfinished capture")),
            None if index == 0 => Ok(Caught::Text(whole.start, whole.end)),
            None => Err(PatternError::Malformed("invalid capture index")),
        }
    }

    fn step(&mut self) -> Result<(), PatternError> {
        self.steps = self.steps.checked_sub(1).ok_or(PatternError::TooLong)?;
        Ok(())
    }

    /// So many bytes of a set are looked at.
    fn look(&mut self, bytes: usize) -> Result<(), PatternError> {
        if self.counts_sets {
            self.steps = self.steps.checked_sub(bytes as u64 / 8).ok_or(PatternError::TooLong)?;
        }
        Ok(())
    }

    /// Where the match ends of what stands in the pattern from `item` on.
    fn matches(&mut self, at: usize, item: usize) -> Found {
        if self.depth >= DEPTH_MAX {
            return Err(PatternError::Malformed("pattern too complex"));
        }
        self.depth += 1;
        let found = self.matches_here(at, item);
        self.depth -= 1;
        found
    }

    fn matches_here(&mut self, mut at: usize, mut item: usize) -> Found {
        loop {
            self.step()?;
            let Some(&first) = self.pattern.get(item) else { return Ok(Some(at)) };
            match (first, self.pattern.get(item + 1)) {
                (b'(', Some(b')')) => return self.opened(at, item + 2, Capture::Place(at)),
                (b'(', _) => return self.opened(at, item + 1, Capture::Open(at)),
                (b')', _) => return self.closed(at, item + 1),
                (b'$', None) => return Ok((at == self.text.len()).then_some(at)),
                (b'%', Some(b'b')) => match self.balanced(at, item + 2)? {
                    Some(end) => (at, item) = (end, item + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = item + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return Err(PatternError::Malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(set)?;
                    self.look((end - set) * 3)?;
                    let before = if at == 0 { 0 } else { self.text[at - 1] };
                    let here = self.text.get(at).copied().unwrap_or(0);
                    if self.in_set(before, set, end - 1) || !self.in_set(here, set, end - 1) {
                        return Ok(None);
                    }
                    item = end;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => {
                    let (start, end) = self.caught_before(*digit)?;
                    let caught = &self.text[start..end];
                    self.steps = self.steps.checked_sub(caught.len() as u64).ok_or(PatternError::TooLong)?;
                    if !self.text[at..].starts_with(caught) {
                        return Ok(None);
                    }
                    (at, item) = (at + caught.len(), item + 2);
                }
                _ => {
                    let end = self.class_end(item)?;
                    self.look((end - item) * 2)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.fits(at, item, end)
                                && let Some(found) = self.matches(at + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            item = end + 1;
                        }
                        Some(b'*') => return self.longest(at, item, end, 0),
                        Some(b'+') => return self.longest(at, item, end, 1),
                        Some(b'-') => return self.shortest(at, item, end),
                        _ => {
                            if !self.fits(at, item, end) {
                                return Ok(None);
                            }
                            (at, item) = (at + 1, end);
                        }
                    }
                }
            }
        }
    }

    fn longest(&mut self, at: usize, item: usize, end: usize, least: usize) -> Found {
        let mut count = 0;
        while self.fits(at + count, item, end) {
            self.step()?;
            self.look(end - item)?;
            count += 1;
        }
        while count >= least {
            if let Some(found) = self.matches(at + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    fn shortest(&mut self, mut at: usize, item: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.matches(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(at, item, end) {
                return Ok(None);
            }
            self.look(end - item)?;
            at += 1;
        }
    }

    fn opened(&mut self, at: usize, item: usize, capture: Capture) -> Found {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(PatternError::Malformed("too many captures"));
        }
        self.captures.push(capture);
        let found = self.matches(at, item)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn closed(&mut self, at: usize, item: usize) -> Found {
        let open = self.captures.iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let Some(index) = open else { return Err(PatternError::Malformed("invalid pattern capture")) };
        let Capture::Open(start) = self.captures[index] else { return Ok(None) };
        self.captures[index] = Capture::Closed(start, at);
        let found = self.matches(at, item)?;
        if found.is_none() {
            self.captures[index] = Capture::Open(start);
        }
        Ok(found)
    }

    fn balanced(&mut self, at: usize, item: usize) -> Found {
        let (Some(&open), Some(&close)) = (self.pattern.get(item), self.pattern.get(item + 1)) else {
            return Err(PatternError::Malformed("unbalanced pattern"));
        };
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for place in at + 1..self.text.len() {
            self.step()?;
            let byte = self.text[place];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(place + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn caught_before(&self, digit: u8) -> Result<(usize, usize), PatternError> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        match index.and_then(|index| self.captures.get(index)) {
            Some(Capture::Closed(start, end)) => Ok((*start, *end)),
            _ => Err(PatternError::Malformed("invalid capture index")),
        }
    }

    /// Where the single item that begins at `item` ends.
    fn class_end(&self, item: usize) -> Result<usize, PatternError> {
        match self.pattern.get(item) {
            Some(b'%') if item + 1 >= self.pattern.len() => {
                Err(PatternError::Malformed("malformed pattern (ends with '%')"))
            }
            Some(b'%') => Ok(item + 2),
            Some(b'[') => {
                let missing = PatternError::Malformed("malformed pattern (missing ']')");
                let mut at = item + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // The first character of a set may be ']'.
                loop {
                    match self.pattern.get(at) {
                        None => return Err(missing),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Whether the text's byte at `at` fits the single item.
    fn fits(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(at) else { return false };
        match self.pattern[item] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[item + 1]),
            b'[' => self.in_set(byte, item, end - 1),
            plain => plain == byte,
        }
    }

    /// Whether a byte is in the set that begins with the bracket at `item` and ends with that at `end`.
    fn in_set(&self, byte: u8, item: usize, end: usize) -> bool {
        let mut at = item + 1;
        let mut found = true;
        if self.pattern.get(at) == Some(&b'^') {
            found = false;
            at += 1;
        }
        while at < end {
            let here = self.pattern[at];
            if here == b'%' {
                if in_class(byte, self.pattern[at + 1]) {
                    return found;
                }
                at += 2;
            } else if self.pattern[at + 1] == b'-' && at + 2 < end {
                if (here..=self.pattern[at + 2]).contains(&byte) {
                    return found;
                }
                at += 3;
            } else {
                if here == byte {
                    return found;
                }
                at += 1;
            }
        }
        !found
    }
}

/// Whether a byte is of the class of a letter; an upper-case letter stands for all that are not.
fn in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str, pattern: &str) -> Result<Option<(usize, usize, Vec<String>)>, PatternError> {
        let mut matcher = Matcher::new(text.as_bytes(), pattern.as_bytes(), 100_000, true);
        let Some(found) = matcher.search(0, false)? else { return Ok(None) };
        let mut captures = Vec::new();
        for index in 0..matcher.captures_len() {
            captures.push(match matcher.capture(index, &found)? {
                Caught::Text(start, end) => text[start..end].to_owned(),
                Caught::Place(place) => place.to_string(),
            });
        }
        Ok(Some((found.start, found.end, captures)))
    }

    fn found(text: &str, pattern: &str) -> Option<(usize, usize, String)> {
        search(text, pattern).unwrap().map(|(start, end, captures)| (start, end, captures.join(",")))
    }

    #[test]
    fn patterns_mean_what_the_manual_says() {
        let at = |start, end, captures: &str| Some((start, end, captures.to_owned()));
        assert_eq!(found("hello world", "o w"), at(4, 7, ""));
        assert_eq!(found("key=value", "(%w+)=(%w+)"), at(0, 9, "key,value"));
        assert_eq!(found("  x", "^%s*(.-)%s*$"), None, "the anchor is the caller's");
        assert_eq!(found("a(b(c)d)e", "%b()"), at(1, 8, ""));
        assert_eq!(found("THE (quick) fox", "%f[%a]%a+%f[%A]"), at(0, 3, ""));
        assert_eq!(found("abcabc", "(a)bc%1"), at(0, 4, "a"));
        assert_eq!(found("x]y", "[]]"), at(1, 2, ""));
        assert_eq!(found("a-b", "[a%-]+"), at(0, 2, ""));
        assert_eq!(found("x5", "()%d()"), at(1, 2, "1,2"));
        assert_eq!(found("aaa", "a-$"), at(0, 3, ""));
        assert_eq!(found("", ".*"), at(0, 0, ""));
        assert_eq!(found("ab", "a?b?c?"), at(0, 2, ""));
        assert_eq!(found("[b]", "[^%[%]]"), at(1, 2, ""));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (pattern, why) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            ("[%", "malformed pattern (missing ']')"),
            ("[]", "malformed pattern (missing ']')"),
            ("a)", "invalid pattern capture"),
            ("%1", "invalid capture index"),
            ("%b", "unbalanced pattern"),
            ("%fa", "missing '[' after '%f' in pattern"),
        ] {
            assert_eq!(search("aaa", pattern), Err(PatternError::Malformed(why)), "{pattern}");
        }
        assert_eq!(search("a", "(a"), Err(PatternError::Malformed("unfinished capture")));
        assert_eq!(search("a", &"()".repeat(33)), Err(PatternError::Malformed("too many captures")));
        assert_eq!(search("", &"a?".repeat(300)), Ok(Some((0, 0, Vec::new()))));
        assert_eq!(search(&"a".repeat(300), &"a?".repeat(300)), Err(PatternError::Malformed("pattern too complex")));
    }

    #[test]
    fn steps_are_counted() {
        let text = "a".repeat(200);
        assert_eq!(search(&text, ".-.-.-.-b"), Err(PatternError::TooLong));
        let set = format!("[{}]-y", "bcd".repeat(4000));
        assert_eq!(search(&text, &set), Err(PatternError::TooLong), "a long set is looked through for each byte");
    }

    proptest::proptest! {
        /// Whatever the pattern, the answer is a part of the text.
        #[test]
        fn no_pattern_breaks_it(text in "[a-c%\\]\\[()]{0,12}", pattern in "[a-c%\\]\\[^()*+?.$1bf-]{0,12}") {
            if let Ok(Some((start, end, _))) = search(&text, &pattern) {
                proptest::prop_assert!(start <= end && end <= text.len());
            }
        }
    }
}
