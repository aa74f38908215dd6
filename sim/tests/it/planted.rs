//! The alarm works: each planted bug is found within the number of seeds that stands beside it.
//!
//! Each is looked for in runs in which the faults that it needs happen often; which ones that are belongs to the
//! knowledge of the bug. A rare one takes a hundred runs to find, so `planted_seeds.txt` says where each was found last, and
//! there it is looked for first. Any change of what happens in runs may move it: then all seeds are looked through as before, and
//! `DICTUM_REWRITE=1 cargo test -p sim --test it planted::` writes down where it is now. With `DICTUM_LONG=1` nothing is known before.

#![allow(clippy::disallowed_methods, reason = "a test may read and write files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use node::Planted;
use sim::chaos::{Fault, Options};
use sim::run::{Violation, run};

use crate::is_long;

fn known_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/planted_seeds.txt")
}

/// The seed at which a bug was found last. A line is a seed and, behind a tab, what it was found as.
fn known_seed(name: &str) -> Option<u64> {
    let text = fs::read_to_string(known_file()).ok()?;
    let (seed, _) = text.lines().filter_map(|line| line.split_once('\t')).find(|(_, found)| *found == name)?;
    seed.parse().ok()
}

fn write_known_seed(name: &str, seed: u64) {
    // Tests run side by side.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = fs::read_to_string(known_file()).unwrap_or_default();
    let others = text.lines().filter(|line| line.split_once('\t').is_some_and(|(_, found)| found != name));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(format!("{seed}\t{name}"));
    lines.sort_by(|one, other| {
        one.split_once('\t').map(|(_, name)| name).cmp(&other.split_once('\t').map(|(_, name)| name))
    });
    fs::write(known_file(), lines.join("\n") + "\n").expect("the sources can be written");
}

/// Fails unless the bug is found in the first `within` seeds.
fn is_found(planted: Planted, within: u64, with: &[Fault]) {
    is_found_by(planted, within, with, "");
}

/// Fails unless the bug is found in the first `within` seeds by the checker of this property (none: by any).
fn is_found_by(planted: Planted, within: u64, with: &[Fault], property: &str) {
    is_found_saying(planted, within, (with, &[]), (property, ""));
}

/// The same with words that the checker says, and without some kinds.
fn is_found_saying(
    planted: Planted,
    within: u64,
    (with, without): (&[Fault], &[Fault]),
    (property, words): (&str, &str),
) {
    // Where there are three they all vote, and two of them are a majority.
    let of_five = with.contains(&Fault::VotersChange) || planted == Planted::VouchedByFew;
    let nodes = if of_five { 5 } else { 3 };
    let (with, without) = (with.to_vec(), without.to_vec());
    let mut options = Options { nodes: Some(nodes), with, without, planted: Some(planted), ..Options::default() };
    let name = [&*format!("{planted:?}"), property, words].join(" | ");
    let rewrite = std::env::var_os("DICTUM_REWRITE").is_some();
    let known = if rewrite || is_long() { None } else { known_seed(&name).filter(|seed| *seed <= within) };
    for seed in known.into_iter().chain((1..=within).filter(|seed| Some(*seed) != known)) {
        options.seed = seed;
        let found = run(&options, false).violations;
        let is_it =
            |found: &&Violation| (property.is_empty() || found.property == property) && found.text.contains(words);
        if let Some(violation) = found.iter().find(is_it) {
            println!("{planted:?}: seed {seed}: {}: {:.200}", violation.property, violation.text);
            if rewrite {
                write_known_seed(&name, seed);
            } else if known.is_some_and(|known| known != seed) {
                println!(
                    "{planted:?}: it has moved; DICTUM_REWRITE=1 cargo test -p sim --test it planted:: writes it down"
                );
            }
            return;
        }
    }
    panic!("{planted:?} is not found within {within} seeds");
}

#[test]
fn address_untold() {
    is_found_by(Planted::AddressUntold, 10, &[Fault::Addresses], "addresses");
}

#[test]
fn answer_before_fsync() {
    is_found(Planted::AnswerBeforeFsync, 120, &[Fault::PowerCut, Fault::PowerCutAll, Fault::SlowSync]);
}

#[test]
fn state_drifts() {
    is_found_by(Planted::StateDrifts, 60, &[], "comparison");
}

#[test]
fn count_unsynced_self() {
    is_found(Planted::CountUnsyncedSelf, 300, &[Fault::PowerCut, Fault::PowerCutAll, Fault::SlowSync]);
}

#[test]
fn read_without_confirmation() {
    is_found(Planted::ReadWithoutConfirmation, 200, &[Fault::Partition, Fault::Pause]);
}

#[test]
#[ignore = "not found in 400 seeds any more, and nobody knows why yet; docs/traps.md, Open"]
fn vouched_by_few() {
    is_found_by(Planted::VouchedByFew, 120, &[Fault::Partition], "linearizability");
}

#[test]
fn forget_promise() {
    is_found(Planted::ForgetPromise, 60, &[Fault::Kill, Fault::Partition, Fault::PowerCutAll]);
}

#[test]
fn damage_is_the_end() {
    is_found(Planted::DamageIsTheEnd, 60, &[Fault::BitRot, Fault::Kill]);
}

#[test]
fn apply_retry_twice() {
    is_found(Planted::ApplyRetryTwice, 60, &[Fault::Loss, Fault::Kill, Fault::Partition]);
}

#[test]
fn truncate_decided() {
    is_found(Planted::TruncateDecided, 20, &[Fault::Duplicate, Fault::Reorder, Fault::Partition]);
}

#[test]
fn expire_by_own_clock() {
    is_found(Planted::ExpireByOwnClock, 40, &[Fault::ClockOffset, Fault::ClockJump]);
}

#[test]
fn position_ahead_of_data() {
    is_found(Planted::PositionAheadOfData, 60, &[Fault::Kill, Fault::PowerCut]);
}

#[test]
fn cut_before_stored() {
    is_found(Planted::CutBeforeStored, 200, &[Fault::PowerCutAll, Fault::Kill]);
}

#[test]
fn vote_with_amnesia() {
    is_found(Planted::VoteWithAmnesia, 60, &[Fault::Kill, Fault::Partition]);
}

#[test]
fn installed_before_synced() {
    is_found(
        Planted::InstalledBeforeSynced,
        200,
        &[Fault::PowerCut, Fault::PowerCutAll, Fault::Wipe, Fault::TransferCrash],
    );
}

#[test]
fn state_named_before_loaded() {
    is_found(
        Planted::StateNamedBeforeLoaded,
        200,
        &[Fault::PowerCut, Fault::PowerCutAll, Fault::Wipe, Fault::TransferCrash],
    );
}

#[test]
fn cache_not_written_through() {
    is_found_by(Planted::CacheNotWrittenThrough, 60, &[Fault::ValueCache], "linearizability");
}

#[test]
fn runs_not_forgotten() {
    is_found(Planted::RunsNotForgotten, 60, &[Fault::Lists]);
}

#[test]
fn full_bucket_grows() {
    is_found_by(Planted::FullBucketGrows, 20, &[Fault::BucketTerms], "quota");
}

#[test]
fn settings_shown_without_confirmation() {
    let with = [Fault::Partition, Fault::Pause, Fault::SettingsChange];
    is_found_by(Planted::ReadWithoutConfirmation, 300, &with, "settings");
}

#[test]
fn all_is_a_majority() {
    is_found_by(Planted::AllIsAMajority, 40, &[Fault::Partition, Fault::Pause, Fault::SlowSync], "on all disks");
}

#[test]
fn stale_session() {
    is_found_by(Planted::StaleSession, 40, &[Fault::Partition, Fault::SlowNetwork, Fault::Loss], "levels");
}

#[test]
fn eviction_outside_the_log() {
    is_found(Planted::EvictionOutsideTheLog, 60, &[Fault::BucketTerms]);
}

#[test]
fn bulletin_taken_twice() {
    is_found_by(Planted::BulletinTakenTwice, 20, &[Fault::PubSub, Fault::Duplicate, Fault::Reorder], "messages");
}

#[test]
fn bulletin_forgotten() {
    is_found_by(Planted::BulletinForgotten, 20, &[Fault::PubSub], "messages");
}

#[test]
fn invalidation_forgotten() {
    is_found_by(Planted::InvalidationForgotten, 20, &[Fault::PubSub], "copies");
}

#[test]
fn invalidation_too_early() {
    is_found_by(Planted::InvalidationTooEarly, 300, &[Fault::PubSub, Fault::SlowSync], "copies");
}

#[test]
fn waiting_forgotten() {
    is_found_by(Planted::WaitingForgotten, 120, &[Fault::Lists], "waiting");
}

/// Where disks or links are slow nobody is promised to be told in time.
const SLOW: [Fault; 6] =
    [Fault::DiskFull, Fault::SlowSync, Fault::SlowDisk, Fault::SyncFailure, Fault::SlowNetwork, Fault::BucketTerms];

#[test]
fn waiting_for_a_stream_forgotten() {
    // With more buckets fewer clients wait in any one of them.
    let without = [&SLOW[..], &[Fault::Partitions]].concat();
    is_found_saying(Planted::WaitingForgotten, 400, (&[Fault::Streams], &without), ("waiting", "waited for t"));
}

#[test]
fn waiting_for_a_group_forgotten() {
    is_found_saying(Planted::WaitingForgotten, 600, (&[Fault::Streams], &SLOW), ("waiting", "waited for m"));
}

#[test]
fn element_taken_by_dead_waiter() {
    // While something happens to nodes or links a pop may be on its way for long.
    let troubles =
        [Fault::Partition, Fault::OneWayCut, Fault::LinkReset, Fault::Kill, Fault::PowerCut, Fault::PowerCutAll];
    let others = [Fault::Pause, Fault::Stop, Fault::VotersChange, Fault::MembersChange, Fault::Restless];
    let without = [&SLOW[..], &troubles, &others].concat();
    is_found_saying(
        Planted::ElementTakenByDeadWaiter,
        400,
        (&[Fault::Lists], &without),
        ("waiting", "nobody has taken it"),
    );
}

#[test]
fn idle_forgets_reads() {
    is_found_saying(Planted::IdleForgetsReads, 20, (&[Fault::Observers], &[]), ("", "is idle for"));
}

#[test]
fn pause_forgotten() {
    is_found_by(Planted::PauseForgotten, 20, &[Fault::Pauses], "an answer in bounded time");
}

#[test]
fn large_write_forgotten() {
    is_found_by(Planted::LargeWriteForgotten, 60, &[], "an answer in bounded time");
}

#[test]
fn look_too_soon() {
    is_found(Planted::LookTooSoon, 200, &[Fault::Partition, Fault::Pause, Fault::Lists]);
}

#[test]
fn scan_skips_a_partition() {
    is_found_by(Planted::ScanSkipsAPartition, 40, &[Fault::Partitions], "scan");
}

#[test]
fn written_beside_its_partition() {
    is_found(Planted::WrittenBesideItsPartition, 60, &[Fault::Partitions, Fault::Sets, Fault::SortedSets]);
}

#[test]
fn voters_change_at_once() {
    is_found_by(Planted::VotersChangeAtOnce, 20, &[Fault::VotersChange], "majorities meet");
}

#[test]
fn removed_with_votes() {
    is_found_by(Planted::RemovedWithVotes, 40, &[Fault::MembersChange], "removed nodes have no vote");
}

#[test]
fn leaves_too_soon() {
    is_found(Planted::LeavesTooSoon, 40, &[Fault::MembersChange, Fault::VotersChange]);
}

#[test]
fn settled_too_soon() {
    let with = [Fault::MembersChange, Fault::VotersChange];
    // Rare: of the seeds 1 to 146 two find it (30 November).
    is_found_by(Planted::SettledTooSoon, 200, &with, "removed nodes have no vote");
}

#[test]
fn number_given_twice() {
    is_found(Planted::NumberGivenTwice, 80, &[Fault::MembersChange]);
}

#[test]
fn snapshot_without_voters() {
    is_found(Planted::SnapshotWithoutVoters, 60, &[Fault::VotersChange, Fault::Kill, Fault::Partition]);
}

#[test]
fn served_where_it_should_redirect() {
    is_found(Planted::ServedWhereItShouldRedirect, 60, &[Fault::Routers, Fault::Partition, Fault::Pause]);
}

#[test]
fn readwrite_forgotten() {
    is_found(Planted::ReadwriteForgotten, 60, &[Fault::Routers, Fault::Partition, Fault::Pause]);
}

#[test]
fn moved_to_itself() {
    is_found_by(Planted::MovedToItself, 10, &[Fault::Routers], "redirections");
}

#[test]
fn alone_with_the_decided() {
    is_found_by(Planted::AloneWithTheDecided, 20, &[Fault::UnsafeRecover], "agreement");
}

#[test]
fn left_behind_heard() {
    is_found_by(Planted::LeftBehindHeard, 20, &[Fault::UnsafeRecover], "left behind");
}

#[test]
fn slow_leads_on() {
    is_found_by(Planted::SlowLeadsOn, 10, &[Fault::SlowDisk], "slow leaders");
}

#[test]
fn earlier_copy_heard() {
    is_found(Planted::EarlierCopyHeard, 10, &[Fault::SetBack]);
}

#[test]
fn outlived_unheard() {
    is_found_by(Planted::OutlivedUnheard, 10, &[Fault::FolderAway], "folders that came back");
}

#[test]
fn a_second_process_heard() {
    let without = [Fault::SetBack, Fault::Versions, Fault::MembersChange, Fault::UnsafeRecover];
    is_found_saying(
        Planted::EarlierCopyHeard,
        60,
        (&[Fault::SecondProcess], &without),
        ("second processes", "are both listened to"),
    );
}

#[test]
fn a_life_as_a_second_process_unheard() {
    is_found_saying(
        Planted::OutlivedUnheard,
        60,
        (&[Fault::SecondProcess], &[]),
        ("folders that came back", "goes on with a folder"),
    );
}

#[test]
fn a_living_majority_left_behind() {
    let with: &[Fault] = &[Fault::SecondProcess];
    is_found_saying(Planted::LeftBehindBelieved, 60, (with, &[]), ("second processes", "says that it was left behind"));
}

#[test]
fn removed_by_the_word_of_one() {
    let with: &[Fault] = &[Fault::SecondProcess];
    is_found_saying(Planted::FarewellBelieved, 60, (with, &[]), ("second processes", "says that it was left behind"));
}

#[test]
fn unsigned_claims() {
    is_found(Planted::UnsignedClaims, 20, &[Fault::Impostor]);
}

#[test]
fn resumes_one_late() {
    is_found_by(Planted::ResumesOneLate, 20, &[Fault::Subscriptions], "subscriptions");
}

#[test]
fn gap_kept_quiet() {
    is_found_by(Planted::GapKeptQuiet, 40, &[Fault::Subscriptions], "subscriptions");
}

#[test]
fn slow_skips_one() {
    is_found_by(Planted::SlowSkipsOne, 40, &[Fault::Subscriptions, Fault::SlowReaders], "subscriptions");
}

#[test]
fn token_of_another_history() {
    let with: &[Fault] = &[Fault::Subscriptions, Fault::UnsafeRecover];
    is_found_by(Planted::TokenOfAnotherHistory, 60, with, "subscriptions");
}

#[test]
fn walk_passes_change() {
    is_found_by(Planted::WalkPassesChange, 80, &[Fault::Subscriptions], "subscriptions");
}

#[test]
fn walk_and_tail_both() {
    is_found_by(Planted::WalkAndTailBoth, 80, &[Fault::Subscriptions], "subscriptions");
}

#[test]
fn feed_gap_unseen() {
    let with: &[Fault] = &[Fault::Subscriptions, Fault::VotersChange, Fault::LinkReset];
    is_found_by(Planted::FeedGapUnseen, 80, with, "subscriptions");
}

#[test]
fn forwards_unread() {
    is_found(Planted::ForwardsUnread, 20, &[Fault::Impostor]);
}

#[test]
fn any_round() {
    is_found(Planted::AnyRound, 20, &[Fault::Impostor]);
}

#[test]
fn scripts_unjudged() {
    is_found_by(Planted::ScriptsUnjudged, 20, &[Fault::Users], "rights");
}

#[test]
fn key_untold() {
    // A process that begins anew tells it.
    let without = [Fault::Kill, Fault::PowerCut, Fault::PowerCutAll, Fault::Stop];
    is_found_saying(Planted::KeyUntold, 30, (&[Fault::Keys], &without), ("keys", "by the key that it has"));
}

#[test]
fn keys_unheard() {
    is_found_by(Planted::KeysUnheard, 10, &[Fault::Keys], "keys");
}

#[test]
fn taken_over_untold() {
    is_found_saying(
        Planted::TakenOverUntold,
        30,
        (&[Fault::Subscriptions], &[]),
        ("subscriptions", "was never told that epoch"),
    );
}

#[test]
fn beginning_unnoted() {
    is_found_saying(
        Planted::BeginningUnnoted,
        60,
        (&[Fault::Subscriptions], &[]),
        ("subscriptions", "nobody has acknowledged"),
    );
}

#[test]
fn rights_kept() {
    is_found_by(Planted::RightsKept, 10, &[Fault::Users], "rights");
}

#[test]
fn any_password_once_shown() {
    is_found_saying(Planted::AnyPasswordOnceShown, 100, (&[Fault::Users], &[]), ("rights", "with a wrong password"));
}

#[test]
fn answers_before_all() {
    is_found_saying(Planted::AnswersBeforeAll, 30, (&[Fault::Users], &[]), ("rights", "who had nothing any more"));
}

#[test]
fn endless_lease() {
    is_found_saying(Planted::EndlessLease, 120, (&[Fault::Users], &[]), ("rights", "who had nothing any more"));
}

#[test]
fn audit_forgotten() {
    is_found_by(Planted::AuditForgotten, 10, &[Fault::Users], "audit");
}

#[test]
fn trail_untold() {
    is_found_saying(Planted::TrailUntold, 10, (&[Fault::Users], &[]), ("audit", "knows of the trail"));
}

#[test]
fn low_disk_frees_nothing() {
    is_found_by(Planted::LowDiskFreesNothing, 10, &[Fault::DiskLow], "room");
}

#[test]
fn low_disk_grows() {
    is_found_by(Planted::LowDiskGrows, 10, &[Fault::DiskLow], "room");
}

#[test]
fn torn_is_damage() {
    is_found_by(Planted::TornIsDamage, 20, &[Fault::TornSectors, Fault::PowerCutAll], "memory is kept");
}

#[test]
fn own_time() {
    is_found_by(Planted::OwnTime, 30, &[Fault::WildClock], "time");
}

#[test]
fn backup_unconfirmed() {
    is_found(Planted::BackupUnconfirmed, 60, &[Fault::Backups]);
}

#[test]
fn backup_since_now() {
    is_found(Planted::BackupSinceNow, 10, &[Fault::Backups]);
}

#[test]
fn feature_too_soon() {
    is_found_by(Planted::FeatureTooSoon, 10, &[Fault::Versions], "versions");
}

#[test]
fn budget_by_node() {
    let with = [Fault::BucketTerms, Fault::Sets, Fault::SortedSets, Fault::Lists];
    is_found_saying(Planted::BudgetByNode, 120, (&with, &[Fault::Versions]), ("replicas agree", ""));
}

#[test]
fn slots_with_a_hole() {
    is_found_by(Planted::SlotsWithAHole, 10, &[Fault::Routers], "redirections");
}

#[test]
fn stepped_over_alone() {
    is_found_by(Planted::SteppedOverAlone, 60, &[Fault::StepOver], "replicas agree");
}

#[test]
fn answer_kept_for_ever() {
    is_found_by(Planted::AnswerKeptForEver, 10, &[], "answers kept");
}
