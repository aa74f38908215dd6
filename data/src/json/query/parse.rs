//! Reads what stands in the brackets of a path.

use super::pattern::Compiled;
use super::{Any, FILTERS_DEEP_MAX, Matches, Operand, Operator, Query, Segment, Selector, Slice, Test};
use crate::json::Json;
use serde_json::Number;

/// Integers are within what an IEEE 754 number holds exactly.
const INTEGER_MAX: i64 = (1 << 53) - 1;

type Parsed<T> = Result<T, &'static str>;

/// The selectors that this text is, all of it.
pub(crate) fn selectors(text: &str) -> Parsed<Vec<Selector>> {
    let mut parser = Parser { rest: text, filters: 0 };
    parser.skip_blanks();
    let selectors = parser.selectors()?;
    parser.skip_blanks();
    if parser.rest.is_empty() { Ok(selectors) } else { Err("a bracket should be closed before what follows there") }
}

/// Reads forward, decided by the next character. The caller has made sure that brackets and parentheses are few, so that it may recurse.
struct Parser<'a> {
    rest: &'a str,
    /// Filters around.
    filters: usize,
}

/// What a function call gives.
enum Call {
    /// A value that can be compared.
    Value(Operand),
    /// Yes or no.
    Logical(Box<Matches>),
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

impl<'a> Parser<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Takes `text` if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text) else { return false };
        self.rest = rest;
        true
    }

    /// The same behind blanks, which stay where they are if it does not come.
    fn take_behind_blanks(&mut self, text: &str) -> bool {
        let before = self.rest;
        self.skip_blanks();
        let is_there = self.take(text);
        if !is_there {
            self.rest = before;
        }
        is_there
    }

    /// What comes next as long as it fits.
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn selectors(&mut self) -> Parsed<Vec<Selector>> {
        let mut selectors = vec![self.selector()?];
        while self.take_behind_blanks(",") {
            self.skip_blanks();
            selectors.push(self.selector()?);
        }
        Ok(selectors)
    }

    fn selector(&mut self) -> Parsed<Selector> {
        match self.peek() {
            Some('*') => {
                self.take("*");
                Ok(Selector::All)
            }
            Some('\'' | '"') => Ok(Selector::Name(self.string()?)),
            Some('?') => {
                self.take("?");
                self.skip_blanks();
                self.filters += 1;
                if self.filters > FILTERS_DEEP_MAX {
                    return Err("it has more than 32 filters inside one another");
                }
                let any = self.any()?;
                self.filters -= 1;
                Ok(Selector::Filter(any))
            }
            _ => self.index_or_slice(),
        }
    }

    fn index_or_slice(&mut self) -> Parsed<Selector> {
        let start = self.integer()?;
        if !self.take_behind_blanks(":") {
            return start.map(Selector::Index).ok_or("a selector is missing");
        }
        self.skip_blanks();
        let end = self.integer()?;
        let mut step = None;
        if self.take_behind_blanks(":") {
            self.skip_blanks();
            step = self.integer()?;
        }
        Ok(Selector::Slice(Slice { start, end, step }))
    }

    /// An integer, if one comes next.
    fn integer(&mut self) -> Parsed<Option<i64>> {
        let digits_from = usize::from(self.rest.starts_with('-'));
        let digits = &self.rest[digits_from..];
        let length = match digits.as_bytes().first() {
            // Nothing follows a zero.
            Some(b'0') if digits_from == 0 => 1,
            Some(b'1'..=b'9') => digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()),
            _ => return Ok(None),
        };
        let (text, rest) = self.rest.split_at(digits_from + length);
        self.rest = rest;
        let number: Option<i64> = text.parse().ok();
        number.filter(|number| in_range(*number)).map(Some).ok_or("an integer is out of range")
    }

    /// A text in quotes of either kind.
    fn string(&mut self) -> Parsed<String> {
        let quote = self.peek().unwrap_or('\'');
        self.rest = &self.rest[1..];
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| c != quote && c != '\\' && c >= ' '));
            let Some(c) = self.peek() else { return Err("a quote is not closed") };
            self.rest = &self.rest[1..];
            match c {
                c if c == quote => return Ok(text),
                '\\' => text.push(self.escaped(quote)?),
                _ => return Err("a control character stands in a text"),
            }
        }
    }

    /// The character that follows a backslash.
    fn escaped(&mut self, quote: char) -> Parsed<char> {
        let Some(c) = self.peek() else { return Err("a quote is not closed") };
        self.rest = &self.rest[c.len_utf8()..];
        Ok(match c {
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'r' => '\r',
            '/' | '\\' => c,
            c if c == quote => c,
            'u' => return self.unicode().ok_or("an escaped character is none"),
            _ => return Err("a character is escaped that needs not be"),
        })
    }

    /// The character of four hexadecimal digits, or of two surrogates.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hex4()?;
        let code = u32::from_str_radix(first, 16).ok()?;
        let is_high = (0xD800..0xDC00).contains(&code);
        if !is_high {
            return char::from_u32(code);
        }
        // As it was first read, and is written by all who write it: in capitals.
        let is_capital = |c: char| !c.is_ascii_lowercase();
        if !first.chars().take(2).all(is_capital) || !self.take("\\u") {
            return None;
        }
        let low = u32::from_str_radix(self.hex4()?, 16).ok().filter(|low| (0xDC00..0xE000).contains(low))?;
        char::from_u32(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
    }

    fn hex4(&mut self) -> Option<&'a str> {
        let digits = self.rest.get(..4).filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))?;
        self.rest = &self.rest[4..];
        Some(digits)
    }

    /// `… || …`
    fn any(&mut self) -> Parsed<Any> {
        let mut all = vec![self.all()?];
        while self.take_behind_blanks("||") {
            self.skip_blanks();
            all.push(self.all()?);
        }
        Ok(Any(all))
    }

    /// `… && …`
    fn all(&mut self) -> Parsed<Vec<Test>> {
        let mut tests = vec![self.test()?];
        while self.take_behind_blanks("&&") {
            self.skip_blanks();
            tests.push(self.test()?);
        }
        Ok(tests)
    }

    fn test(&mut self) -> Parsed<Test> {
        let is_negated = self.take("!");
        if is_negated {
            self.skip_blanks();
        }
        match self.peek() {
            Some('(') => {
                self.take("(");
                self.skip_blanks();
                let any = self.any()?;
                if !self.take_behind_blanks(")") {
                    return Err("a parenthesis is not closed");
                }
                Ok(Test::Group { is_negated, any })
            }
            Some('$' | '@') => {
                let query = self.query()?;
                match self.operator_unless(is_negated) {
                    None => Ok(Test::Exists { is_negated, query }),
                    Some(_) if !query.is_singular() => Err("what is compared may have several values"),
                    Some(by) => self.comparison(Operand::One(query), by),
                }
            }
            Some('a'..='z') if !self.literal_is_next() => match self.call()? {
                Call::Logical(matches) => Ok(Test::Matches { is_negated, matches }),
                Call::Value(left) => match self.operator_unless(is_negated) {
                    None => Err("a function's value is not compared"),
                    Some(by) => self.comparison(left, by),
                },
            },
            _ if is_negated => Err("what is negated is no test"),
            _ => {
                let left = self.literal()?;
                let by = self.operator().ok_or("a value is not compared")?;
                self.comparison(left, by)
            }
        }
    }

    fn comparison(&mut self, left: Operand, by: Operator) -> Parsed<Test> {
        self.skip_blanks();
        let right = match self.peek() {
            Some('$' | '@') => Operand::One(self.query().and_then(singular)?),
            Some('a'..='z') if !self.literal_is_next() => match self.call()? {
                Call::Value(value) => value,
                Call::Logical(_) => return Err("a test is compared"),
            },
            _ => self.literal()?,
        };
        Ok(Test::Comparison { left, by, right })
    }

    /// What is negated is compared with nothing.
    fn operator_unless(&mut self, is_negated: bool) -> Option<Operator> {
        if is_negated { None } else { self.operator() }
    }

    /// The operator that comes next behind blanks, if one does.
    fn operator(&mut self) -> Option<Operator> {
        const OPERATORS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        OPERATORS.iter().find(|(text, _)| self.take_behind_blanks(text)).map(|(_, operator)| *operator)
    }

    /// Whether a word comes next that is a value, and not the name of a function.
    fn literal_is_next(&self) -> bool {
        ["true", "false", "null"].iter().any(|word| self.rest.starts_with(word))
    }

    fn literal(&mut self) -> Parsed<Operand> {
        let value = match self.peek() {
            Some('\'' | '"') => Json::String(self.string()?),
            _ if self.take("true") => Json::Bool(true),
            _ if self.take("false") => Json::Bool(false),
            _ if self.take("null") => Json::Null,
            _ => Json::Number(self.number()?),
        };
        Ok(Operand::Literal(value))
    }

    fn number(&mut self) -> Parsed<Number> {
        const NONE: &str = "a value is missing";
        let before = self.rest;
        self.take("-");
        // Nothing follows a zero but a fraction or an exponent.
        if !self.take("0") && self.take_while(|c| c.is_ascii_digit()).is_empty() {
            return Err(NONE);
        }
        let digit_follows = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        if self.rest.strip_prefix('.').is_some_and(digit_follows) {
            self.take(".");
            self.take_while(|c| c.is_ascii_digit());
        }
        if self.rest.starts_with(['e', 'E']) {
            self.rest = &self.rest[1..];
            if !self.take("-") {
                self.take("+");
            }
            self.take_while(|c| c.is_ascii_digit());
        }
        before[..before.len() - self.rest.len()].parse().map_err(|_| "a number is none, or out of range")
    }

    /// A query that begins with `$` or `@`.
    fn query(&mut self) -> Parsed<Query> {
        let is_absolute = self.take("$");
        if !is_absolute {
            self.take("@");
        }
        let mut segments = Vec::new();
        loop {
            if self.take("..") {
                segments.push(Segment { descends: true, selectors: self.below()? });
                continue;
            }
            // Blanks may stand before a step, but not inside one.
            let before = self.rest;
            self.skip_blanks();
            if self.take(".") {
                segments.push(Segment { descends: false, selectors: vec![self.name_or_all()?] });
            } else if self.rest.starts_with('[') {
                segments.push(Segment { descends: false, selectors: self.bracket()? });
            } else {
                self.rest = before;
                return Ok(Query { is_absolute, segments });
            }
        }
    }

    /// What follows `..`.
    fn below(&mut self) -> Parsed<Vec<Selector>> {
        if self.rest.starts_with('[') { self.bracket() } else { Ok(vec![self.name_or_all()?]) }
    }

    /// What follows a dot.
    fn name_or_all(&mut self) -> Parsed<Selector> {
        if self.take("*") {
            return Ok(Selector::All);
        }
        if !self.peek().is_some_and(is_name_start) {
            return Err("a name is missing, or needs brackets and quotes");
        }
        Ok(Selector::Name(self.take_while(|c| is_name_start(c) || c.is_ascii_digit()).to_owned()))
    }

    fn bracket(&mut self) -> Parsed<Vec<Selector>> {
        self.take("[");
        self.skip_blanks();
        let selectors = self.selectors()?;
        if self.take_behind_blanks("]") { Ok(selectors) } else { Err("a bracket is not closed") }
    }

    fn call(&mut self) -> Parsed<Call> {
        let name = self.take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let call = match (name, self.take("(")) {
            (_, false) => return Err("a value is missing"),
            ("length", _) => Call::Value(Operand::Length(Box::new(self.value_argument()?))),
            ("count", _) => Call::Value(Operand::Count(self.query_argument()?)),
            ("value", _) => Call::Value(Operand::Value(self.query_argument()?)),
            ("match" | "search", _) => {
                let text = self.value_argument()?;
                if !self.take_behind_blanks(",") {
                    return Err("a function has too few arguments");
                }
                let pattern = self.value_argument()?;
                let compiled = Compiled::default();
                Call::Logical(Box::new(Matches { is_whole: name == "match", text, pattern, compiled }))
            }
            _ => return Err("there is no such function"),
        };
        if self.take_behind_blanks(")") { Ok(call) } else { Err("a function has too many arguments, or is not closed") }
    }

    fn query_argument(&mut self) -> Parsed<Query> {
        self.skip_blanks();
        if self.rest.starts_with(['$', '@']) {
            self.query()
        } else {
            Err("a function takes a query, and has another argument")
        }
    }

    fn value_argument(&mut self) -> Parsed<Operand> {
        self.skip_blanks();
        match self.peek() {
            Some('$' | '@') => Ok(Operand::One(self.query().and_then(singular)?)),
            Some('a'..='z') if !self.literal_is_next() => match self.call()? {
                Call::Value(value) => Ok(value),
                Call::Logical(_) => Err("a function takes a value, and has a test"),
            },
            _ => self.literal(),
        }
    }
}

fn singular(query: Query) -> Parsed<Query> {
    if query.is_singular() { Ok(query) } else { Err("what is compared may have several values") }
}

/// Whether an index can be meant by a query.
pub(crate) fn in_range(index: i64) -> bool {
    (-INTEGER_MAX..=INTEGER_MAX).contains(&index)
}
