//! The laws by which keys are drawn, and their names in workloads.

use std::fmt;
use std::str::FromStr;

/// The skew of a zipfian law if none is given: YCSB's `ZIPFIAN_CONSTANT`.
pub(super) const THETA: f64 = 0.99;

/// YCSB's `hotspotdatafraction` and `hotspotopnfraction`.
const HOTSPOT: (f64, f64) = (0.2, 0.8);

/// YCSB's `exponential.percentile` and `exponential.frac`.
const EXPONENTIAL: (f64, f64) = (95.0, 0.857_142_857_1);

/// How keys are drawn from the records `0..records`.
///
/// As text, with what may be left out in brackets: `uniform`, `sequential`, `zipfian[:θ]`, `scrambled[:θ]`, `latest[:θ]`,
/// `hotspot[:set,operations]`, `exponential[:percentile,fraction]`. What YCSB's workload files call `zipfian` is `scrambled`
/// here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every record equally often.
    Uniform,
    /// Record after record, and again from the first.
    Sequential,
    /// Record `i` (from 0) with probability `1 / ((i+1)^θ · ζ)`: the first ones are the popular ones.
    Zipfian {
        /// The skew, above 0 and below 1.
        theta: f64,
    },
    /// The popular ones are strewn over all records: a zipfian number below 10^10, hashed.
    Scrambled {
        /// The skew, above 0 and below 1.
        theta: f64,
    },
    /// The newest record is the most popular: zipfian, counted backwards from it.
    Latest {
        /// The skew, above 0 and below 1.
        theta: f64,
    },
    /// A share of the operations goes to a share of the records, evenly within; the others evenly to the rest.
    Hotspot {
        /// The share of the records that is hot, above 0 and below 1.
        set: f64,
        /// The share of the operations that goes there, 0 to 1.
        operations: f64,
    },
    /// The newer, the more popular, falling off exponentially: so many per cent of the draws are among so large a share of
    /// the records.
    Exponential {
        /// Per cent of the draws, above 0 and below 100.
        percentile: f64,
        /// The share of the records, above 0 and at most 1.
        fraction: f64,
    },
}

impl Distribution {
    /// Checks that the parameters are within their ranges; everything that [`FromStr`] gives is.
    ///
    /// # Errors
    /// A sentence that names the parameter, its value and its range.
    pub fn check(self) -> Result<Distribution, String> {
        let within = |name: &str, value: f64, fits: bool, range: &str| {
            if fits { Ok(()) } else { Err(format!("{name} is {value} and must be {range}")) }
        };
        match self {
            Distribution::Uniform | Distribution::Sequential => {}
            Distribution::Zipfian { theta } | Distribution::Scrambled { theta } | Distribution::Latest { theta } => {
                within("the skew θ", theta, theta > 0.0 && theta < 1.0, "above 0 and below 1")?;
            }
            Distribution::Hotspot { set, operations } => {
                within("the share of hot records", set, set > 0.0 && set < 1.0, "above 0 and below 1")?;
                within("the share of operations", operations, (0.0..=1.0).contains(&operations), "from 0 to 1")?;
            }
            Distribution::Exponential { percentile, fraction } => {
                let fits = percentile > 0.0 && percentile < 100.0;
                within("the percentile", percentile, fits, "above 0 and below 100")?;
                within("the share of records", fraction, fraction > 0.0 && fraction <= 1.0, "above 0 and at most 1")?;
            }
        }
        Ok(self)
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        let (name, given) = match text.split_once(':') {
            Some((name, given)) => (name, Some(given)),
            None => (text, None),
        };
        let wrong = |what: String| format!("distribution `{text}`: {what}");
        let mut numbers = Vec::new();
        for word in given.into_iter().flat_map(|given| given.split(',')) {
            numbers.push(word.trim().parse::<f64>().map_err(|_| wrong(format!("`{word}` is no number")))?);
        }
        // So many numbers, or none at all.
        let takes = |count: usize, example: &str| {
            if given.is_none() || numbers.len() == count {
                return Ok(());
            }
            let example = if example.is_empty() { String::new() } else { format!(", for example `{example}`") };
            Err(wrong(format!("{} numbers after the colon, {name} takes {count}{example}", numbers.len())))
        };
        let number = |place: usize, usual: f64| numbers.get(place).copied().unwrap_or(usual);
        let theta = number(0, THETA);
        let distribution = match name.trim() {
            "uniform" | "sequential" => {
                takes(0, "")?;
                if name.trim() == "uniform" { Distribution::Uniform } else { Distribution::Sequential }
            }
            "zipfian" => takes(1, "zipfian:0.99").map(|()| Distribution::Zipfian { theta })?,
            "scrambled" => takes(1, "scrambled:0.99").map(|()| Distribution::Scrambled { theta })?,
            "latest" => takes(1, "latest:0.99").map(|()| Distribution::Latest { theta })?,
            "hotspot" => {
                takes(2, "hotspot:0.2,0.8")?;
                Distribution::Hotspot { set: number(0, HOTSPOT.0), operations: number(1, HOTSPOT.1) }
            }
            "exponential" => {
                takes(2, "exponential:95,0.857")?;
                Distribution::Exponential { percentile: number(0, EXPONENTIAL.0), fraction: number(1, EXPONENTIAL.1) }
            }
            _ => {
                let known = "uniform, sequential, zipfian, scrambled, latest, hotspot and exponential";
                return Err(wrong(format!("there is no such distribution; there are {known}")));
            }
        };
        distribution.check().map_err(wrong)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => write!(to, "uniform"),
            Distribution::Sequential => write!(to, "sequential"),
            Distribution::Zipfian { theta } => write!(to, "zipfian:{theta}"),
            Distribution::Scrambled { theta } => write!(to, "scrambled:{theta}"),
            Distribution::Latest { theta } => write!(to, "latest:{theta}"),
            Distribution::Hotspot { set, operations } => write!(to, "hotspot:{set},{operations}"),
            Distribution::Exponential { percentile, fraction } => write!(to, "exponential:{percentile},{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_written_back() {
        let read = |text: &str| text.parse::<Distribution>();
        assert_eq!(read("zipfian"), Ok(Distribution::Zipfian { theta: 0.99 }));
        assert_eq!(read("scrambled:0.5"), Ok(Distribution::Scrambled { theta: 0.5 }));
        assert_eq!(read("hotspot"), Ok(Distribution::Hotspot { set: 0.2, operations: 0.8 }));
        assert_eq!(read("hotspot: 0.1, 0.9"), Ok(Distribution::Hotspot { set: 0.1, operations: 0.9 }));
        let usual = Distribution::Exponential { percentile: 95.0, fraction: 0.857_142_857_1 };
        assert_eq!(read("exponential"), Ok(usual));
        for text in ["uniform", "sequential", "zipfian:0.7", "latest:0.99", "hotspot:0.2,0.8", "exponential:90,0.5"] {
            assert_eq!(read(text).map(|read| read.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_would_be_right() {
        let error = |text: &str| text.parse::<Distribution>().unwrap_err();
        assert!(error("zipf").contains("there are uniform"), "{}", error("zipf"));
        assert_eq!(
            error("zipfian:1.2"),
            "distribution `zipfian:1.2`: the skew θ is 1.2 and must be above 0 and below 1"
        );
        assert!(error("zipfian:a").contains("`a` is no number"));
        assert!(error("zipfian:").contains("`` is no number"));
        assert!(error("hotspot:0.2").contains("takes 2, for example `hotspot:0.2,0.8`"), "{}", error("hotspot:0.2"));
        assert!(error("hotspot:NaN,0.8").contains("above 0 and below 1"));
        assert!(error("uniform:3").contains("takes 0"));
        assert!(error("exponential:100,0.5").contains("below 100"));
    }
}
