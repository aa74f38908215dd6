//! Redis's glob patterns: `*`, `?`, `[abc]`, `[a-z]`, `[^x]` and `\` before any of them.
//!
//! A pattern is compiled once into elements, each of which but `*` takes exactly one byte. Matching walks text
//! and pattern together and, on a mismatch, returns to the last `*` and lets it take one byte more. Returning to
//! an earlier `*` can never help, because the later one already tries every place; so the work is at most
//! `text × pattern`, where a naive recursion is exponential in the number of stars.
//!
//! The odd corners are Redis's own (`stringmatchlen` in its util.c): a class that is never closed ends with the
//! pattern, a range may run backwards, bytes compare as signed within a range, a trailing backslash stands for
//! itself, and a pattern with more than a thousand stars matches nothing beyond the thousandth.

use crate::meter::Meter;

/// Most stars that may have text after them: that of Redis (`nesting > 1000`).
const STARS_MAX: usize = 1000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    elements: Vec<Element>,
    /// The pattern is `*` alone, which Redis never even compares: it also takes the empty text.
    everything: bool,
}

/// One step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    /// Any run of bytes, also none.
    Star,
    /// Any one byte.
    Any,
    /// This byte.
    Byte(u8),
    /// A byte whose bit is set; boxed because it is rare and large.
    Class(Box<[u64; 4]>),
}

impl Glob {
    /// Compiles `pattern`; every sequence of bytes is a pattern. Takes up to twenty times its length in memory, so
    /// callers bound it.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Glob {
        let mut elements = Vec::with_capacity(pattern.len().min(64));
        let mut rest = pattern;
        let mut stars = 0;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let element = match byte {
                b'*' if elements.last() == Some(&Element::Star) => continue,
                b'*' => {
                    stars += 1;
                    Element::Star
                }
                b'?' => Element::Any,
                b'[' => {
                    let (class, after) = class(rest);
                    rest = after;
                    Element::Class(Box::new(class))
                }
                b'\\' => match rest.split_first() {
                    Some((&escaped, after)) => {
                        rest = after;
                        Element::Byte(escaped)
                    }
                    None => Element::Byte(b'\\'),
                },
                other => Element::Byte(other),
            };
            if stars > STARS_MAX && element != Element::Star {
                // Redis gives up in the thousandth nested star. A class without members stops the match there.
                elements.push(Element::Class(Box::new([0; 4])));
                break;
            }
            elements.push(element);
        }
        Glob { elements, everything: pattern == b"*" }
    }

    /// Whether the pattern takes the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        self.matches_within(text, &Meter::default())
    }

    /// The same among many patterns, or many texts: looking at it once is paid for, too. A match that costs too much is none.
    #[must_use]
    pub fn matches_among_many(&self, text: &[u8], meter: &Meter) -> bool {
        meter.visit(text.len()) && self.matches_within(text, meter) && !meter.is_over()
    }

    /// The same, where bytes that are looked at again have to be paid for. A match that costs too much is none.
    #[must_use]
    pub fn matches_within(&self, text: &[u8], meter: &Meter) -> bool {
        if self.everything {
            return true;
        }
        if text.is_empty() {
            // In Redis not even `**` takes the empty text.
            return self.elements.is_empty();
        }
        let (mut at_text, mut at_element) = (0, 0);
        // Where to go back to: the element after the last star, and the text that it was last tried on.
        let mut retry: Option<(usize, usize)> = None;
        while at_text < text.len() {
            match self.elements.get(at_element) {
                Some(Element::Star) => {
                    at_element += 1;
                    if at_element == self.elements.len() {
                        return true;
                    }
                    retry = Some((at_element, at_text));
                }
                Some(element) if element.takes(text[at_text]) => {
                    at_text += 1;
                    at_element += 1;
                }
                _ => {
                    let Some((element, tried)) = retry else { return false };
                    if !meter.parse(at_text - tried + 1) {
                        return false;
                    }
                    at_text = tried + 1;
                    at_element = element;
                    retry = Some((element, at_text));
                }
            }
        }
        self.elements[at_element..].iter().all(|element| *element == Element::Star)
    }

    /// The bytes that every match begins with; possibly none.
    #[must_use]
    pub fn literal_prefix(&self) -> Vec<u8> {
        let literal = |element: &Element| match element {
            Element::Byte(byte) => Some(*byte),
            _ => None,
        };
        self.elements.iter().map_while(literal).collect()
    }

    /// The only text that the pattern takes, if it has no wildcard.
    #[must_use]
    pub fn literal(&self) -> Option<Vec<u8>> {
        let prefix = self.literal_prefix();
        (prefix.len() == self.elements.len()).then_some(prefix)
    }
}

impl Element {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Element::Star => false,
            Element::Any => true,
            Element::Byte(own) => *own == byte,
            Element::Class(members) => members[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1,
        }
    }
}

/// Reads a class from behind its `[`: its members, and what follows the closing `]`.
fn class(pattern: &[u8]) -> ([u64; 4], &[u8]) {
    let mut members = [0u64; 4];
    let mut add = |byte: u8| members[usize::from(byte >> 6)] |= 1 << (byte & 63);
    let (negated, mut rest) = match pattern {
        [b'^', after @ ..] => (true, after),
        _ => (false, pattern),
    };
    loop {
        rest = match rest {
            [] => break,
            [b'\\', escaped, after @ ..] => {
                add(*escaped);
                after
            }
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [one, b'-', other, after @ ..] => {
                // `char` is signed where Redis is built, and either end may come first.
                let (one, other) = (*one as i8, *other as i8);
                (one.min(other)..=one.max(other)).for_each(|byte| add(byte as u8));
                after
            }
            [byte, after @ ..] => {
                add(*byte);
                after
            }
        };
    }
    if negated {
        members.iter_mut().for_each(|word| *word = !*word);
    }
    (members, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Glob::new(pattern).matches(text)
    }

    #[test]
    fn patterns_take_what_redis_takes() {
        // Each line was compared with `KEYS` of redis-server 7.
        type Case = (&'static [u8], &'static [&'static [u8]], &'static [&'static [u8]]);
        const CASES: &[Case] = &[
            (b"*", &[b"", b"a", b"abc"], &[]),
            (b"**", &[b"a", b"abc"], &[b""]),
            (b"h?llo", &[b"hello", b"hallo", b"h\nllo"], &[b"hllo", b"heello"]),
            (b"h*llo", &[b"hllo", b"heeeello"], &[b"hllo!", b"ello"]),
            (b"h[ae]llo", &[b"hello", b"hallo"], &[b"hillo"]),
            (b"h[^e]llo", &[b"hallo", b"h^llo"], &[b"hello"]),
            (b"h[a-c]llo", &[b"hallo", b"hcllo"], &[b"hdllo"]),
            (b"h[c-a]llo", &[b"hallo", b"hcllo"], &[b"hdllo"]),
            (b"a\\*b", &[b"a*b"], &[b"axb"]),
            (b"a\\", &[b"a\\"], &[b"a"]),
            (b"[\\]]", &[b"]"], &[b"\\"]),
            (b"[a", &[b"a"], &[b"[a", b"b"]),
            (b"[", &[], &[b"[", b"a"]),
            (b"[^", &[b"a"], &[b"", b"aa"]),
            (b"[]a", &[], &[b"]a", b"a"]),
            (b"[a-]", &[b"a", b"]", b"^"], &[b"-", b"b"]),
            (b"a*", &[b"a", b"ab"], &[b"ba"]),
            (b"*a", &[b"a", b"ba"], &[b"ab"]),
            (b"a**b*", &[b"ab", b"axxbxx"], &[b"a"]),
            (b"", &[b""], &[b"a"]),
        ];
        for (pattern, taken, refused) in CASES {
            for text in *taken {
                assert!(matches(pattern, text), "{pattern:?} must take {text:?}");
            }
            for text in *refused {
                assert!(!matches(pattern, text), "{pattern:?} must refuse {text:?}");
            }
        }
    }

    #[test]
    fn bytes_of_a_range_compare_as_signed() {
        assert!(matches(b"[a-\xff]", b"\0"), "from -1 to 97");
        assert!(matches(b"[\x80-\xff]", b"\x90"));
        assert!(!matches(b"[\x80-\xff]", b"a"));
    }

    #[test]
    fn abusive_patterns_end_soon() {
        let text = vec![b'a'; 10_000];
        let pattern: Vec<u8> = b"a*".repeat(900).into_iter().chain(*b"b").collect();
        assert!(!matches(&pattern, &text));
        let pattern: Vec<u8> = b"*?".repeat(900);
        assert!(matches(&pattern, &text));
    }

    #[test]
    fn a_thousand_stars_are_enough() {
        let text = vec![b'a'; 3000];
        assert!(matches(&b"*a".repeat(1000), &text));
        assert!(matches(&[&b"*a".repeat(1000)[..], b"*"].concat(), &text));
        assert!(!matches(&b"*a".repeat(1001), &text));
    }

    #[test]
    fn literal_parts_are_known() {
        assert_eq!(Glob::new(b"user:{7}:*").literal_prefix(), b"user:{7}:");
        assert_eq!(Glob::new(b"a\\*b").literal().as_deref(), Some(&b"a*b"[..]));
        assert_eq!(Glob::new(b"a?").literal(), None);
    }

    #[test]
    fn agrees_with_the_obvious_recursion() {
        fn naive(elements: &[Element], text: &[u8]) -> bool {
            match (elements.split_first(), text.split_first()) {
                (None, _) => text.is_empty(),
                (Some((Element::Star, rest)), _) => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
                (Some((element, rest)), Some((&byte, text))) => element.takes(byte) && naive(rest, text),
                (Some(_), None) => false,
            }
        }
        let mut rng = base::Rng::new(11);
        for _ in 0..20_000 {
            let draw = |rng: &mut base::Rng, from: &[u8], most: u64| -> Vec<u8> {
                (0..rng.between(1, most)).map(|_| *rng.pick(from)).collect()
            };
            let pattern = draw(&mut rng, b"aab**?[]^-\\", 8);
            let text = draw(&mut rng, b"aab-]", 8);
            let glob = Glob::new(&pattern);
            assert_eq!(glob.matches(&text), naive(&glob.elements, &text), "{pattern:?} on {text:?}");
        }
    }
}
