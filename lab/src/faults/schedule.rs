//! The plan of faults: what happens to whom, and when after the load began.
//!
//! ```text
//! 5s kill leader; 8s restart; 12s pause follower 2s; 20s cut leader 5s; 30s slow-disk n2 10ms; 40s slow-disk n2 0; 45s noise 50% 5s
//! ```
//! Steps are separated by `;` or by lines; each is a time, what is done, to whom, and how. `it` is the node of the step before, which is
//! also what `restart` and `resume` mean without a name.

use std::fmt;
use std::time::Duration;

use super::noise::parse_share;
use super::relay::DELAY_MAX;
use crate::cluster::Cut;

/// Most steps of a plan: faults that chance draws come to some 25,000 in the longest time.
pub const STEPS_MAX: usize = 1 << 16;
/// Latest time of a step, and longest duration of a fault.
pub const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// How a step is written, for messages.
const FORM: &str = "write steps as TIME WHAT WHOM, for example: 5s kill leader; 8s restart; 12s pause follower 2s; 20s cut n1 5s; 30s slow-disk n2 10ms; 40s noise 50% 5s";

/// A plan. [`Schedule::parse`] makes one of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// In the order of their times.
    pub steps: Vec<Step>,
}

/// One thing to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Since the load began.
    pub at: Duration,
    /// What.
    pub action: Action,
}

/// To whom something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Who leads when the time has come.
    Leader,
    /// The first node that does not lead then.
    Follower,
    /// The node of the step before.
    It,
    /// The node of this name.
    Named(String),
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `kill -9`.
    Kill(Whom),
    /// SIGTERM.
    Terminate(Whom),
    /// Started again; told to stop before that if it runs.
    Restart(Whom),
    /// Held, for so long if that is said.
    Pause(Whom, Option<Duration>),
    /// No longer held.
    Resume(Whom),
    /// Cut off, for so long if that is said.
    Cut(Whom, Cut, Option<Duration>),
    /// All cuts undone.
    Heal,
    /// Syncs take so much longer; nothing for as usual.
    SlowDisk(Whom, Duration),
    /// Messages arrive so much later; nothing for as usual.
    SlowLinks(Whom, Duration),
    /// Neighbours take these shares of a processor each, for so long if that is said; none for silence.
    Noise(Vec<f64>, Option<Duration>),
}

impl Schedule {
    /// Reads a plan.
    ///
    /// # Errors
    /// The text says which step is wrong and how steps are written.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let parts = text.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty());
        let mut steps = Vec::new();
        for part in parts {
            if steps.len() >= STEPS_MAX {
                return Err(format!("the plan has more than {STEPS_MAX} steps; split it"));
            }
            steps.push(parse_step(part).map_err(|reason| format!("in {part:?}: {reason}; {FORM}"))?);
        }
        // Stable: steps of the same time keep their order.
        steps.sort_by_key(|step| step.at);
        Ok(Schedule { steps })
    }

    /// Whether links are cut or slowed down: the cluster needs relays then.
    #[must_use]
    pub fn needs_relays(&self) -> bool {
        let needs = |step: &Step| matches!(step.action, Action::Cut(..) | Action::Heal | Action::SlowLinks(..));
        self.steps.iter().any(needs)
    }

    /// Whether disks are made slow: the cluster must be started for that.
    #[must_use]
    pub fn needs_slow_disks(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::SlowDisk(..)))
    }

    /// When all of it is over: the last step's time, with its duration.
    #[must_use]
    pub fn end(&self) -> Duration {
        let lasts = |action: &Action| match action {
            Action::Pause(_, time) | Action::Cut(_, _, time) | Action::Noise(_, time) => time.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        self.steps.iter().map(|step| step.at + lasts(&step.action)).max().unwrap_or_default()
    }
}

impl Action {
    /// To whom it is done, if to one node.
    #[must_use]
    pub fn whom(&self) -> Option<&Whom> {
        match self {
            Action::Kill(whom)
            | Action::Terminate(whom)
            | Action::Restart(whom)
            | Action::Pause(whom, _)
            | Action::Resume(whom)
            | Action::Cut(whom, ..)
            | Action::SlowDisk(whom, _)
            | Action::SlowLinks(whom, _) => Some(whom),
            Action::Heal | Action::Noise(..) => None,
        }
    }
}

fn parse_step(text: &str) -> Result<Step, String> {
    let mut words = text.split_whitespace();
    let mut next = || words.next();
    let at = parse_time(next().unwrap_or_default())?;
    let what = next().ok_or("it does not say what is done")?;
    let mut whom = None;
    if !matches!(what, "heal" | "noise" | "quiet") {
        whom = next().map(|word| match word {
            "leader" => Whom::Leader,
            "follower" => Whom::Follower,
            "it" => Whom::It,
            name => Whom::Named(name.to_owned()),
        });
    }
    let someone =
        || whom.clone().ok_or_else(|| format!("{what} does not say to whom: leader, follower, it, or a node's name"));
    let it = || whom.clone().unwrap_or(Whom::It);
    let mut rest: Vec<&str> = words.collect();
    let action = match what {
        "kill" => Action::Kill(someone()?),
        "terminate" => Action::Terminate(someone()?),
        "restart" | "start" => Action::Restart(it()),
        "pause" => Action::Pause(someone()?, take_time(&mut rest)?),
        "resume" => Action::Resume(it()),
        "cut" => {
            let cut = match rest.first() {
                Some(&"deaf") => Cut::Deaf,
                Some(&"mute") => Cut::Mute,
                _ => Cut::Both,
            };
            rest.drain(..usize::from(cut != Cut::Both));
            Action::Cut(someone()?, cut, take_time(&mut rest)?)
        }
        "heal" => Action::Heal,
        "slow-disk" | "slow-links" => {
            let delay = take_time(&mut rest)?
                .ok_or_else(|| format!("{what} does not say how slow: 10ms, or 0 for as usual"))?;
            if delay > DELAY_MAX {
                return Err(format!("{what} can be at most {} s", DELAY_MAX.as_secs()));
            }
            if what == "slow-disk" { Action::SlowDisk(someone()?, delay) } else { Action::SlowLinks(someone()?, delay) }
        }
        "noise" => {
            // A bare number is a share; a time has a unit.
            let is_time = |word: &&str| word.ends_with('s');
            let time = rest.pop_if(|word| is_time(word));
            let shares = rest.drain(..).map(parse_share).collect::<Result<Vec<f64>, String>>()?;
            if shares.is_empty() {
                return Err("noise does not say how much: 0.5 or 50% of a processor".to_owned());
            }
            Action::Noise(shares, time.map(parse_time).transpose()?)
        }
        "quiet" => Action::Noise(Vec::new(), None),
        other => {
            return Err(format!(
                "{other:?} cannot be done; choose kill, terminate, restart, pause, resume, cut, heal, slow-disk, slow-links, noise or quiet"
            ));
        }
    };
    match rest.first() {
        Some(word) => Err(format!("{word:?} means nothing here")),
        None => Ok(Step { at, action }),
    }
}

/// The next word as a time, if there is one.
fn take_time(rest: &mut Vec<&str>) -> Result<Option<Duration>, String> {
    if rest.is_empty() {
        return Ok(None);
    }
    parse_time(rest.remove(0)).map(Some)
}

/// `5s`, `500ms`, `2m`, or bare seconds with a fraction; at most [`TIME_MAX`].
fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write for example 5s, 500ms or 2m");
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(place) => text.split_at(place),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * factor;
    if !(0.0..=TIME_MAX.as_secs_f64()).contains(&seconds) {
        return Err(format!("{text:?} is not between 0 and {} s", TIME_MAX.as_secs()));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A time in seconds as people write it: rounded to microseconds, since `f64` seconds of `Duration` end in `.5220000000000002`.
fn told(time: Duration) -> String {
    format!("{}s", (time.as_nanos() as f64 / 1e3).round() / 1e6)
}

impl fmt::Display for Schedule {
    /// As [`Schedule::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}{} {}", told(step.at), step.action)?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: &Option<Duration>| time.map_or_else(String::new, |time| format!(" {}", told(time)));
        match self {
            Action::Kill(whom) => write!(f, "kill {whom}"),
            Action::Terminate(whom) => write!(f, "terminate {whom}"),
            Action::Restart(whom) => write!(f, "restart {whom}"),
            Action::Pause(whom, lasts) => write!(f, "pause {whom}{}", time(lasts)),
            Action::Resume(whom) => write!(f, "resume {whom}"),
            Action::Cut(whom, cut, lasts) => {
                let direction = match cut {
                    Cut::Both => "",
                    Cut::Deaf => " deaf",
                    Cut::Mute => " mute",
                };
                write!(f, "cut {whom}{direction}{}", time(lasts))
            }
            Action::Heal => f.write_str("heal"),
            Action::SlowDisk(whom, delay) => write!(f, "slow-disk {whom} {}", told(*delay)),
            Action::SlowLinks(whom, delay) => write!(f, "slow-links {whom} {}", told(*delay)),
            Action::Noise(shares, _) if shares.is_empty() => f.write_str("quiet"),
            Action::Noise(shares, lasts) => {
                f.write_str("noise")?;
                shares.iter().try_for_each(|share| write!(f, " {share}"))?;
                f.write_str(&time(lasts))
            }
        }
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Whom::Leader => "leader",
            Whom::Follower => "follower",
            Whom::It => "it",
            Whom::Named(name) => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: f64) -> Duration {
        Duration::from_secs_f64(count)
    }

    #[test]
    fn every_step_is_read_and_written() {
        let text = "5s kill leader; 8 restart\n 500ms pause follower 2s; 20s cut leader deaf 5s;;21s cut n1; 22s heal;\
                    30s slow-disk n2 10ms; 31s slow-links it 0.5s; 40s noise 50% 0.25 5s; 41s quiet; 42s terminate it; 43s resume n3; 1m noise 1";
        let plan = Schedule::parse(text).expect("it is right");
        let at = |step: usize| &plan.steps[step];
        assert_eq!(*at(0), Step { at: seconds(0.5), action: Action::Pause(Whom::Follower, Some(seconds(2.0))) });
        assert_eq!(*at(1), Step { at: seconds(5.0), action: Action::Kill(Whom::Leader) });
        assert_eq!(*at(2), Step { at: seconds(8.0), action: Action::Restart(Whom::It) });
        assert_eq!(
            *at(3),
            Step { at: seconds(20.0), action: Action::Cut(Whom::Leader, Cut::Deaf, Some(seconds(5.0))) }
        );
        assert_eq!(at(4).action, Action::Cut(Whom::Named("n1".to_owned()), Cut::Both, None));
        assert_eq!(at(6).action, Action::SlowDisk(Whom::Named("n2".to_owned()), seconds(0.01)));
        assert_eq!(at(8).action, Action::Noise(vec![0.5, 0.25], Some(seconds(5.0))));
        assert_eq!(at(9).action, Action::Noise(Vec::new(), None));
        assert_eq!((plan.steps.len(), plan.end()), (13, seconds(60.0)));
        assert_eq!(Schedule::parse(&plan.to_string()), Ok(plan.clone()));
        assert!(plan.needs_relays() && plan.needs_slow_disks());
        let short = Schedule::parse("5s kill leader; 6s pause follower 9s").expect("it is right");
        assert!(!short.needs_relays() && !short.needs_slow_disks());
        assert_eq!(
            (short.end(), Schedule::parse("\n;"), Schedule::default().end()),
            (seconds(15.0), Ok(Schedule::default()), seconds(0.0))
        );
    }

    #[test]
    fn times_are_written_as_they_were_read() {
        for text in ["3.522s pause n1 2.107s", "0.001s slow-disk n1 0.0005s", "86400s heal"] {
            assert_eq!(Schedule::parse(text).expect("it is right").to_string(), text);
        }
        // Every millisecond of a minute: no digits that nobody wrote.
        for milliseconds in 0..60_000 {
            let text = told(Duration::from_millis(milliseconds));
            assert!(text.len() <= "59.999s".len(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            ("kill leader", "is not a time"),
            ("5s", "what is done"),
            ("5s kill", "to whom"),
            ("5s explode leader", "choose kill"),
            ("5s kill leader now", "\"now\" means nothing"),
            ("5s noise", "how much"),
            ("5s noise 2", "at most 1"),
            ("5s slow-disk n1", "how slow"),
            ("5s slow-disk n1 2m", "at most 60 s"),
            ("25h kill leader", "is not a time"),
            ("86401 kill leader", "between 0 and"),
            ("-1s kill leader", "between 0 and"),
            ("NaN kill leader", "is not a time"),
        ] {
            let told = Schedule::parse(text).expect_err(text);
            assert!(told.contains(reason) && told.contains("write steps as"), "{text}: {told}");
        }
        assert!(Schedule::parse(&"1s heal;".repeat(STEPS_MAX + 1)).expect_err("too many").contains("split it"));
    }
}
