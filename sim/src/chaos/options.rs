//! Which run: the options as values and as words.

use node::Planted;

use super::Fault;

/// Every planted bug with the name used in options and files.
pub const PLANTED: [(&str, Planted); 82] = [
    ("answer-before-fsync", Planted::AnswerBeforeFsync),
    ("count-unsynced-self", Planted::CountUnsyncedSelf),
    ("read-without-confirmation", Planted::ReadWithoutConfirmation),
    ("vouched-by-few", Planted::VouchedByFew),
    ("forget-promise", Planted::ForgetPromise),
    ("damage-is-the-end", Planted::DamageIsTheEnd),
    ("position-ahead-of-data", Planted::PositionAheadOfData),
    ("cut-before-stored", Planted::CutBeforeStored),
    ("vote-with-amnesia", Planted::VoteWithAmnesia),
    ("installed-before-synced", Planted::InstalledBeforeSynced),
    ("state-named-before-loaded", Planted::StateNamedBeforeLoaded),
    ("full-bucket-grows", Planted::FullBucketGrows),
    ("cache-not-written-through", Planted::CacheNotWrittenThrough),
    ("runs-not-forgotten", Planted::RunsNotForgotten),
    ("apply-retry-twice", Planted::ApplyRetryTwice),
    ("truncate-decided", Planted::TruncateDecided),
    ("expire-by-own-clock", Planted::ExpireByOwnClock),
    ("own-time", Planted::OwnTime),
    ("backup-unconfirmed", Planted::BackupUnconfirmed),
    ("backup-since-now", Planted::BackupSinceNow),
    ("all-is-a-majority", Planted::AllIsAMajority),
    ("stale-session", Planted::StaleSession),
    ("eviction-outside-the-log", Planted::EvictionOutsideTheLog),
    ("bulletin-taken-twice", Planted::BulletinTakenTwice),
    ("bulletin-forgotten", Planted::BulletinForgotten),
    ("invalidation-forgotten", Planted::InvalidationForgotten),
    ("waiting-forgotten", Planted::WaitingForgotten),
    ("pause-forgotten", Planted::PauseForgotten),
    ("large-write-forgotten", Planted::LargeWriteForgotten),
    ("look-too-soon", Planted::LookTooSoon),
    ("invalidation-too-early", Planted::InvalidationTooEarly),
    ("idle-forgets-reads", Planted::IdleForgetsReads),
    ("scan-skips-a-partition", Planted::ScanSkipsAPartition),
    ("written-beside-its-partition", Planted::WrittenBesideItsPartition),
    ("voters-change-at-once", Planted::VotersChangeAtOnce),
    ("removed-with-votes", Planted::RemovedWithVotes),
    ("leaves-too-soon", Planted::LeavesTooSoon),
    ("settled-too-soon", Planted::SettledTooSoon),
    ("number-given-twice", Planted::NumberGivenTwice),
    ("snapshot-without-voters", Planted::SnapshotWithoutVoters),
    ("served-where-it-should-redirect", Planted::ServedWhereItShouldRedirect),
    ("readwrite-forgotten", Planted::ReadwriteForgotten),
    ("moved-to-itself", Planted::MovedToItself),
    ("slots-with-a-hole", Planted::SlotsWithAHole),
    ("slow-leads-on", Planted::SlowLeadsOn),
    ("busy-unheard", Planted::BusyUnheard),
    ("budget-by-node", Planted::BudgetByNode),
    ("state-drifts", Planted::StateDrifts),
    ("earlier-copy-heard", Planted::EarlierCopyHeard),
    ("outlived-unheard", Planted::OutlivedUnheard),
    ("alone-with-the-decided", Planted::AloneWithTheDecided),
    ("left-behind-heard", Planted::LeftBehindHeard),
    ("left-behind-believed", Planted::LeftBehindBelieved),
    ("scripts-unjudged", Planted::ScriptsUnjudged),
    ("key-untold", Planted::KeyUntold),
    ("keys-unheard", Planted::KeysUnheard),
    ("farewell-believed", Planted::FarewellBelieved),
    ("unsigned-claims", Planted::UnsignedClaims),
    ("forwards-unread", Planted::ForwardsUnread),
    ("any-round", Planted::AnyRound),
    ("torn-is-damage", Planted::TornIsDamage),
    ("rights-kept", Planted::RightsKept),
    ("any-password-once-shown", Planted::AnyPasswordOnceShown),
    ("beginning-unnoted", Planted::BeginningUnnoted),
    ("taken-over-untold", Planted::TakenOverUntold),
    ("answers-before-all", Planted::AnswersBeforeAll),
    ("endless-lease", Planted::EndlessLease),
    ("audit-forgotten", Planted::AuditForgotten),
    ("trail-untold", Planted::TrailUntold),
    ("low-disk-grows", Planted::LowDiskGrows),
    ("low-disk-frees-nothing", Planted::LowDiskFreesNothing),
    ("feature-too-soon", Planted::FeatureTooSoon),
    ("stepped-over-alone", Planted::SteppedOverAlone),
    ("answer-kept-for-ever", Planted::AnswerKeptForEver),
    ("address-untold", Planted::AddressUntold),
    ("resumes-one-late", Planted::ResumesOneLate),
    ("gap-kept-quiet", Planted::GapKeptQuiet),
    ("slow-skips-one", Planted::SlowSkipsOne),
    ("token-of-another-history", Planted::TokenOfAnotherHistory),
    ("walk-passes-change", Planted::WalkPassesChange),
    ("walk-and-tail-both", Planted::WalkAndTailBoth),
    ("feed-gap-unseen", Planted::FeedGapUnseen),
];

/// Which run: with the code, all there is to know for running it again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Everything is drawn from this.
    pub seed: u64,
    /// How many nodes; drawn if absent.
    pub nodes: Option<u16>,
    /// How long the phase with faults lasts, in milliseconds; drawn if absent.
    pub chaos_ms: Option<u64>,
    /// Kinds of faults that are there for certain, and four times as often.
    pub with: Vec<Fault>,
    /// Kinds of faults that are left out.
    pub without: Vec<Fault>,
    /// Planned faults that are left out, by their numbers in [`Chaos::plan`].
    pub dropped: Vec<u32>,
    /// A bug for the checkers to find.
    pub planted: Option<Planted>,
}

impl Options {
    /// The options as words, as the command line and files have them; [`Options::parse`] reads them.
    #[must_use]
    pub fn to_words(&self) -> String {
        let mut words = format!("--seed {}", self.seed);
        if let Some(nodes) = self.nodes {
            words.push_str(&format!(" --nodes {nodes}"));
        }
        if let Some(chaos_ms) = self.chaos_ms {
            words.push_str(&format!(" --chaos-ms {chaos_ms}"));
        }
        for (option, faults) in [("--with", &self.with), ("--without", &self.without)] {
            if !faults.is_empty() {
                let names: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
                words.push_str(&format!(" {option} {}", names.join(",")));
            }
        }
        if !self.dropped.is_empty() {
            let numbers: Vec<String> = self.dropped.iter().map(u32::to_string).collect();
            words.push_str(&format!(" --drop {}", numbers.join(",")));
        }
        if let Some((name, _)) = PLANTED.iter().find(|(_, planted)| Some(*planted) == self.planted) {
            words.push_str(&format!(" --planted {name}"));
        }
        words
    }

    /// Reads what [`Options::to_words`] wrote.
    ///
    /// # Errors
    /// The word that is not understood.
    pub fn parse(words: &str) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.split_whitespace();
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} has no value"))?;
            let bad = || format!("{name} {value}: not understood");
            match name {
                "--seed" => options.seed = value.parse().map_err(|_| bad())?,
                "--nodes" => options.nodes = Some(value.parse().map_err(|_| bad())?),
                "--chaos-ms" => options.chaos_ms = Some(value.parse().map_err(|_| bad())?),
                "--with" => options.with = faults_from_names(value).ok_or_else(bad)?,
                "--without" => options.without = faults_from_names(value).ok_or_else(bad)?,
                "--drop" => {
                    options.dropped = value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
                }
                "--planted" => options.planted = Some(planted_from_name(value).ok_or_else(bad)?),
                _ => return Err(format!("{name}: not an option of a run")),
            }
        }
        Ok(options)
    }
}

/// The kinds with these names, which stand between commas.
#[must_use]
pub fn faults_from_names(names: &str) -> Option<Vec<Fault>> {
    names.split(',').map(Fault::from_name).collect()
}

/// The planted bug with that name.
#[must_use]
pub fn planted_from_name(name: &str) -> Option<Planted> {
    PLANTED.iter().find(|(known, _)| *known == name).map(|(_, planted)| *planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip() {
        let options = Options {
            seed: 77,
            nodes: Some(5),
            chaos_ms: Some(1234),
            with: vec![Fault::PowerCut],
            without: vec![Fault::Loss, Fault::Wipe],
            dropped: vec![3, 9],
            planted: Some(Planted::ForgetPromise),
        };
        assert_eq!(Options::parse(&options.to_words()), Ok(options));
        assert!(Options::parse("--seed x").is_err());
        assert!(Options::parse("--what 1").is_err());
    }
}
