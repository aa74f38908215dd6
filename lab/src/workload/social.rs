//! `social`: the social network of the scalability study (mission §6). Of 86 requests 50 read a user's tweets, 25 log in, 6
//! tweet, 3 register, 1 counts a user's tweets, 1 counts the users of a country.
//!
//! | key | what |
//! |---|---|
//! | `account:N` | hash: `password`, `country` |
//! | `tweets:N` | list of the user's tweets, the newest first, at most 1,000 |
//! | `users-by-country` | hash: country → users |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Rng;

use super::{Distribution, Draft, Draw, Keys, Mix, Parameters, Shape, Text, Workload, push_decimal};

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "social",
    sentence: "a social network: of 86 requests 50 read tweets, 25 log in, 6 tweet, 3 register, 1 and 1 count (scalability study)",
    parameters: &[
        "records (users)",
        "field-bytes (of a tweet)",
        "distribution",
        "mix (the kinds of --list's sentence)",
    ],
    build,
};

const SHARES: [(&str, f64); 6] = [
    ("tweets-of-user", 50.0),
    ("log-in", 25.0),
    ("tweet", 6.0),
    ("register", 3.0),
    ("count-tweets", 1.0),
    ("users-by-country", 1.0),
];
const COUNTRIES: u64 = 50;
const TWEETS_READ: &[u8] = b"19";
const TWEETS_KEPT: &[u8] = b"999";
const BY_COUNTRY: &[u8] = b"users-by-country";

#[derive(Clone)]
struct Social {
    users: u64,
    bytes: usize,
    distribution: Distribution,
    mix: Mix,
    text: Arc<Text>,
    /// The number of the next user.
    next: Arc<AtomicU64>,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    let bytes = parameters.field_bytes_or(140)?;
    let users = parameters.records_or(10_000)?;
    Ok(Box::new(Social {
        users,
        bytes,
        distribution: parameters.distribution.unwrap_or(Distribution::Uniform),
        mix: Mix::new(&SHARES, parameters.mix.as_deref())?,
        text: Arc::new(Text::new(bytes.max(16), parameters.seed)),
        next: Arc::new(AtomicU64::new(users)),
    }))
}

fn numbered<'a>(draft: &'a mut Draft, prefix: &[u8], number: u64) -> &'a mut Draft {
    draft.word_with(|out| {
        out.extend_from_slice(prefix);
        push_decimal(out, number);
    })
}

impl Social {
    fn register(&self, user: u64, draft: &mut Draft) {
        let country = user % COUNTRIES;
        draft.command(b"HSET");
        numbered(draft, b"account:", user).word(b"password").word(self.text.cut_at(16, user));
        numbered(draft.word(b"country"), b"country-", country);
        draft.command(b"HINCRBY").word(BY_COUNTRY);
        numbered(draft, b"country-", country).word(b"1");
    }

    fn tweet(&self, user: u64, text: &[u8], draft: &mut Draft) {
        draft.command(b"LPUSH");
        numbered(draft, b"tweets:", user).word(text);
        draft.command(b"LTRIM");
        numbered(draft, b"tweets:", user).word(b"0").word(TWEETS_KEPT);
    }
}

impl Workload for Social {
    fn kinds(&self) -> Vec<String> {
        self.mix.names()
    }

    fn records(&self) -> u64 {
        self.users
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        self.register(number, draft);
        for tweet in 0..3 {
            self.tweet(number, self.text.cut_at(self.bytes, number * 3 + tweet), draft);
        }
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        let mut rng = Rng::new(seed);
        let keys = Keys::new(self.distribution, self.users, rng.next_u64())?;
        Ok(Box::new(Drawer { of: self.clone(), keys, rng }))
    }
}

struct Drawer {
    of: Social,
    keys: Keys,
    rng: Rng,
}

impl Draw for Drawer {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        draft.kind = self.of.mix.draw(&mut self.rng);
        let user = self.keys.next();
        match draft.kind {
            0 => {
                draft.command(b"LRANGE");
                numbered(draft, b"tweets:", user).word(b"0").word(TWEETS_READ);
            }
            1 => {
                draft.command(b"HGET");
                numbered(draft, b"account:", user).word(b"password");
            }
            2 => self.of.tweet(user, self.of.text.cut(self.of.bytes, &mut self.rng), draft),
            3 => self.of.register(self.of.next.fetch_add(1, Ordering::Relaxed), draft),
            4 => {
                draft.command(b"LLEN");
                numbered(draft, b"tweets:", user);
            }
            _ => {
                draft.command(b"HGET").word(BY_COUNTRY);
                numbered(draft, b"country-", user % COUNTRIES);
            }
        }
        true
    }
}
