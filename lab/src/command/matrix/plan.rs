//! The file of a matrix: what is varied, and the points that this comes to.
//!
//! ```toml
//! seconds = 5                    # of each point, without warming up
//! [base]                         # what holds where nothing else is said; names as below
//! records = 1000
//! [[sweep]]                      # lists are multiplied with each other; sweeps are added
//! replicas = [3, 5]
//! durability = ["majority", "all"]
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::cluster::Options;
use crate::draw::Distribution;
use crate::load::{Load, Pacing};
use crate::record::Arrivals;
use crate::report::gather::settings;
use crate::workload::{Parameters, parse_mix};

/// Points of one matrix, with their repeats.
pub(super) const POINTS_MAX: usize = 1_000;
/// Seconds of one point.
const SECONDS_MAX: f64 = 3_600.0;

/// What can be varied.
pub(super) const VARIABLES: [&str; 12] = [
    "workload",
    "records",
    "fields",
    "field-bytes",
    "distribution",
    "mix",
    "clients",
    "rate",
    "memory-quota",
    "replicas",
    "durability",
    "consistency",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    title: String,
    question: String,
    seconds: f64,
    #[serde(default)]
    warm_up: u32,
    #[serde(default = "once")]
    repeats: u32,
    #[serde(default)]
    base: BTreeMap<String, toml::Value>,
    sweep: Vec<BTreeMap<String, toml::Value>>,
}

fn once() -> u32 {
    1
}

/// A matrix that was read and is right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub title: String,
    pub question: String,
    /// In the order in which they are measured; all repeats of everything once before anything twice.
    pub points: Vec<Point>,
}

/// One stretch of load on one cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// Every setting that was given, by name.
    pub settings: BTreeMap<String, String>,
    /// Those of them that some sweep varies.
    pub variables: BTreeMap<String, String>,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds before.
    pub warm_up: u32,
    /// Which time it is measured, from 1.
    pub repeat: u32,
}

impl Matrix {
    /// Reads a file's text.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what to write.
    pub(super) fn parse(text: &str) -> Result<Matrix, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if !(file.seconds >= 1.0 && file.seconds <= SECONDS_MAX) || f64::from(file.warm_up) > SECONDS_MAX {
            return Err(format!("seconds = {}: write 1 to {SECONDS_MAX} for each point", file.seconds));
        }
        let base: BTreeMap<String, String> = file
            .base
            .iter()
            .map(|(name, value)| Ok((known(name)?, word(name, value)?)))
            .collect::<Result<_, String>>()?;
        let mut settings: Vec<BTreeMap<String, String>> = Vec::new();
        let mut varied = BTreeSet::new();
        let too_many = || format!("more than {POINTS_MAX} points: write fewer values, or split the file");
        for sweep in &file.sweep {
            let mut points = vec![base.clone()];
            for (name, values) in sweep {
                let (name, values) = (known(name)?, words(name, values)?);
                if points.len() * values.len() > POINTS_MAX {
                    return Err(too_many());
                }
                let with = |point: &BTreeMap<String, String>, value: &String| {
                    let mut point = point.clone();
                    point.insert(name.clone(), value.clone());
                    point
                };
                points = points.iter().flat_map(|point| values.iter().map(|value| with(point, value))).collect();
                varied.insert(name);
            }
            // What several sweeps have in common is measured once.
            for point in points {
                if !settings.contains(&point) {
                    settings.push(point);
                }
            }
        }
        if settings.is_empty() || file.repeats == 0 || settings.len() * file.repeats as usize > POINTS_MAX {
            return Err(if settings.is_empty() || file.repeats == 0 {
                "there is no point: write at least one [[sweep]], and repeats of at least 1".to_owned()
            } else {
                too_many()
            });
        }
        let mut points = Vec::new();
        for repeat in 1..=file.repeats {
            points.extend(settings.iter().map(|settings| Point {
                settings: settings.clone(),
                variables: settings.iter().filter(|(name, _)| varied.contains(*name)).map(own).collect(),
                seconds: file.seconds,
                warm_up: file.warm_up,
                repeat,
            }));
        }
        for point in &points {
            point.check().map_err(|error| format!("{}: {error}", point.label()))?;
        }
        Ok(Matrix { title: file.title, question: file.question, points })
    }
}

fn own((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

fn known(name: &str) -> Result<String, String> {
    if VARIABLES.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("`{name}` cannot be set: write one of {}", VARIABLES.join(", ")))
}

fn word(name: &str, value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        other => Err(format!("{name} = {other}: write a number or a text")),
    }
}

fn words(name: &str, value: &toml::Value) -> Result<Vec<String>, String> {
    match value {
        toml::Value::Array(values) if !values.is_empty() => values.iter().map(|value| word(name, value)).collect(),
        other => Err(format!("{name} = {other}: in a sweep write a list, [1, 2, 3]")),
    }
}

impl Point {
    fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let parse = |text: &str| text.parse().map_err(|_| format!("{name} = {text}: write a number"));
        self.get(name).map(parse).transpose()
    }

    /// The workload's name.
    pub(super) fn workload(&self) -> &str {
        self.get("workload").unwrap_or("ycsb-a")
    }

    /// What is set of the workload.
    pub(super) fn parameters(&self) -> Result<Parameters, String> {
        Ok(Parameters {
            records: self.number("records")?,
            fields: self.number("fields")?,
            field_bytes: self.number("field-bytes")?,
            distribution: self.get("distribution").map(str::parse::<Distribution>).transpose()?,
            mix: self.get("mix").map(parse_mix).transpose()?,
            seed: u64::from(self.repeat),
            ..Parameters::default()
        })
    }

    /// The cluster that it is measured on.
    pub(super) fn options(&self) -> Result<Options, String> {
        let text = |name: &str| self.get(name).map(str::to_owned);
        Ok(Options {
            nodes: self.number("replicas")?.unwrap_or(3),
            memory_quota: text("memory-quota"),
            durability: text("durability"),
            consistency: text("consistency"),
            ..Options::default()
        })
    }

    /// Puts what it says of the load into `load`.
    pub(super) fn set(&self, load: &mut Load) -> Result<(), String> {
        load.clients = self.number("clients")?.unwrap_or(16);
        if let Some(rate) = self.number("rate")? {
            load.pacing = Pacing::Open { rate, arrivals: Arrivals::Poisson };
        }
        (load.warm_up, load.seconds, load.seed) = (self.warm_up, self.seconds, u64::from(self.repeat));
        load.check()
    }

    /// Its variables, for people.
    pub(super) fn label(&self) -> String {
        settings(&self.told())
    }

    /// Its variables, with the number of the repeat if it is not the first.
    pub(super) fn told(&self) -> BTreeMap<String, String> {
        let repeat = (self.repeat > 1).then(|| ("repeat".to_owned(), self.repeat.to_string()));
        self.variables.iter().map(own).chain(repeat).collect()
    }

    /// Its measurement's name: equal for equal settings, whatever else the file says, so that it is found again.
    pub(super) fn id(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        let text = format!("{}seconds={}\nwarm-up={}\n", settings.concat(), self.seconds, self.warm_up);
        // FNV-1a with 64 bits: names of at most a thousand points, which nobody forges.
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("point-{hash:016x}-{}", self.repeat)
    }

    fn check(&self) -> Result<(), String> {
        let nodes = self.options()?.nodes;
        if !(1..=base::limits::VOTERS_MAX).contains(&nodes) {
            return Err(format!("replicas = {nodes}: write 1 to {}", base::limits::VOTERS_MAX));
        }
        let one_of = |name: &str, levels: &[&str]| match self.get(name) {
            Some(level) if !levels.contains(&level) => {
                Err(format!("{name} = {level}: write one of {}", levels.join(", ")))
            }
            _ => Ok(()),
        };
        one_of("durability", &["majority", "persist-majority", "all"])?;
        one_of("consistency", &["linearizable", "session", "local"])?;
        let mut load = Load::new(crate::drive::Target::parse("redis://127.0.0.1:1")?);
        self.set(&mut load)?;
        super::super::measure::workload(self.workload(), &self.parameters()?).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title = \"t\"\nquestion = \"q\"\nseconds = 5\n";

    fn parse(rest: &str) -> Result<Matrix, String> {
        Matrix::parse(&format!("{HEAD}{rest}"))
    }

    #[test]
    fn lists_are_multiplied_and_sweeps_added() {
        let text = "repeats = 2\n[base]\nrecords = 10\n[[sweep]]\nrecords = [10, 20]\n[[sweep]]\nrecords = [10]\n[[sweep]]\n\
            replicas = [3, 5]\ndurability = [\"majority\", \"all\"]\n";
        let points = parse(text).expect("it is right").points;
        // What the first two have in common is measured once.
        assert_eq!(points.len(), 2 * (2 + 4));
        assert_eq!(points[3].label(), "durability = majority, records = 10, replicas = 5");
        assert_eq!((points[3].options().expect("right").nodes, points[6].repeat), (5, 2));
        let ids: BTreeSet<String> = points.iter().map(Point::id).collect();
        assert_eq!(ids.len(), points.len());
    }

    #[test]
    fn a_point_keeps_its_name_when_others_change() {
        let id = |text: &str| parse(text).expect("it is right").points[0].id();
        let one = id("[[sweep]]\nrecords = [10]\n");
        assert_eq!(one, id("[base]\nrecords = 10\n[[sweep]]\nrecords = [10, 30]\n"));
        assert_ne!(one, id("warm-up = 1\n[[sweep]]\nrecords = [10]\n"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            ("[[sweep]]\nreplica = [3]\n", "`replica` cannot be set: write one of workload"),
            ("[[sweep]]\nreplicas = 3\n", "write a list"),
            ("[[sweep]]\nreplicas = [true]\n", "a number or a text"),
            ("[[sweep]]\nreplicas = [9]\n", "write 1 to 7"),
            ("[[sweep]]\nrecords = [\"many\"]\n", "write a number"),
            ("[[sweep]]\ndurability = [\"none\"]\n", "persist-majority"),
            ("[[sweep]]\nworkload = [\"nonesuch\"]\n", "there is no workload"),
            ("[[sweep]]\nmix = [\"fly=1\"]\n", "no kind"),
            ("[[sweep]]\nrate = [0]\n", "operations a second"),
            ("sweep = []\n", "there is no point"),
            ("repeats = 600\n[[sweep]]\nrecords = [1, 2]\n", "more than 1000 points"),
            ("speed = 3\n[[sweep]]\nrecords = [1, 2]\n", "unknown field"),
        ] {
            let told = parse(text).expect_err(text);
            assert!(told.contains(reason), "{text}: {told}");
        }
    }
}
