//! How misfortunes are drawn: each kind with its weight, in plans of their own, so that a kind that came later does not shift the draws of the others.

use base::Rng;

use super::kinds::Fault;
use super::{MS, Planned, SECOND, Target};

/// The kinds that befall a node at a moment, with their weights.
pub(super) const KINDS: [(Fault, u64); 16] = [
    (Fault::OneWayCut, 3),
    (Fault::Partition, 4),
    (Fault::LinkReset, 3),
    (Fault::Kill, 4),
    (Fault::PowerCut, 4),
    (Fault::PowerCutAll, 1),
    (Fault::CrashAtStart, 2),
    (Fault::Pause, 3),
    (Fault::Stop, 2),
    (Fault::ClockJump, 2),
    (Fault::BitRot, 3),
    (Fault::SyncFailure, 2),
    (Fault::DiskFull, 2),
    (Fault::Wipe, 2),
    (Fault::SlowSync, 1),
    (Fault::JournalLost, 1),
];

/// Kinds that came later. They have a plan of their own, so that seeds known before still mean the same without them.
pub(super) const LATER_KINDS: [(Fault, u64); 2] = [(Fault::ReadError, 3), (Fault::IdentityRot, 1)];

/// Another plan of its own, for the same reason.
pub(super) const SETTINGS_KINDS: [(Fault, u64); 1] = [(Fault::SettingsChange, 1)];

/// And another one.
pub(super) const VOTERS_KINDS: [(Fault, u64); 1] = [(Fault::VotersChange, 1)];

/// And another one.
pub(super) const SLOW_KINDS: [(Fault, u64); 1] = [(Fault::SlowDisk, 1)];

/// And another one.
pub(super) const MEMBERS_KINDS: [(Fault, u64); 1] = [(Fault::MembersChange, 1)];

/// And another one.
pub(super) const COPIES_KINDS: [(Fault, u64); 1] = [(Fault::SetBack, 1)];

/// And another one.
pub(super) const AWAY_KINDS: [(Fault, u64); 1] = [(Fault::FolderAway, 1)];

/// And another one.
pub(super) const WILD_KINDS: [(Fault, u64); 1] = [(Fault::WildClock, 1)];

/// And another one.
pub(super) const ADDRESS_KINDS: [(Fault, u64); 1] = [(Fault::Addresses, 1)];

/// And another one.
pub(super) const KEY_KINDS: [(Fault, u64); 1] = [(Fault::Keys, 1)];

/// And another one.
pub(super) const DOUBLE_KINDS: [(Fault, u64); 1] = [(Fault::SecondProcess, 1)];

/// And another one.
pub(super) const IMPOSTOR_KINDS: [(Fault, u64); 1] = [(Fault::Impostor, 1)];

/// And another one.
pub(super) const LOW_KINDS: [(Fault, u64); 1] = [(Fault::DiskLow, 1)];

/// And another one.
pub(super) const USER_KINDS: [(Fault, u64); 1] = [(Fault::Users, 1)];

/// And another one.
pub(super) const VERSIONS_KINDS: [(Fault, u64); 1] = [(Fault::Versions, 1)];

/// And another one.
pub(super) const ZONE_KINDS: [(Fault, u64); 1] = [(Fault::ZoneLost, 1)];

/// And another one.
pub(super) const WORK_KINDS: [(Fault, u64); 1] = [(Fault::LongWork, 1)];

/// And another one.
pub(super) const READING_KINDS: [(Fault, u64); 1] = [(Fault::SlowReaders, 1)];

/// And another one.
pub(super) const STEP_KINDS: [(Fault, u64); 1] = [(Fault::StepOver, 1)];

/// Tells its drawing from that of all else.
pub(super) const AWAY_DRAWN: u64 = 0xf01d_0a3a;
pub(super) const WILD_DRAWN: u64 = 0x0c10_c4a7;
pub(super) const ADDRESSES_DRAWN: u64 = 0xadd2_e55e;
pub(super) const DOUBLES_DRAWN: u64 = 0x0d0b_1e5a;
pub(super) const IMPOSTORS_DRAWN: u64 = 0x1e_ec0d;
pub(super) const LOW_DRAWN: u64 = 0xd15c_0104;
pub(super) const KEYS_DRAWN: u64 = 0x6e75_91d7;
pub(super) const USERS_DRAWN: u64 = 0x05e2_ac15;

/// Tells its drawing from that of all else.
pub(super) const STEPS_DRAWN: u64 = 0x57e9_0b34;

/// Tells its drawing from that of all else.
pub(super) const COSTLY_DRAWN: u64 = 0xc057_2711;

/// Tells its drawing from that of all else.
pub(super) const READING_DRAWN: u64 = 0x4ead_2711;
pub(super) const CHANGES_DRAWN: u64 = 0xc4a7_3011;

/// Tells its drawing from that of all else.
pub(super) const COMPARISONS_DRAWN: u64 = 0xd16e_5700;

/// Tells its drawing from that of all else.
pub(super) const WORK_DRAWN: u64 = 0x3027_2611;
pub(super) const LARGE_DRAWN: u64 = 0x3028_1104;
pub(super) const TRIMS_DRAWN: u64 = 0x5721_6d73;

/// Tells its drawing from that of all else.
pub(super) const ZONES_DRAWN: u64 = 0x2026_2026;

/// Tells its drawing from that of all else.
pub(super) const VERSIONS_DRAWN: u64 = 0x7e25_1045;

/// Tells its drawing from that of members.
pub(super) const COPIES_DRAWN: u64 = 0x5e7b;

/// Tells the drawing of whether most are lost from that of members.
pub(super) const ALONE_DRAWN: u64 = 0xa10e;

/// Tells the drawing of whether nodes come and go from that of how.
pub(super) const MEMBERS_DRAWN: u64 = 0x3e3b;

/// Tells the drawing of those who never rest from that of all else.
pub(super) const RESTLESS_DRAWN: u64 = 0x4e57_1e55;

/// Draws `count` misfortunes. Those of kinds that are off are left out afterwards, so that the rest stays as it is.
pub(super) fn draw_plan(
    rng: &mut Rng,
    count: u64,
    kinds: &[(Fault, u64)],
    nodes: u16,
    ends_at: u64,
    often: &[Fault],
    has: &dyn Fn(Fault) -> bool,
) -> Vec<Planned> {
    let mut plan = Vec::new();
    let mut at = SECOND;
    let gap = (ends_at.saturating_sub(at) / (count + 1)).max(MS);
    let weight_of = |&(fault, weight): &(Fault, u64)| if often.contains(&fault) { 4 * weight } else { weight };
    let weights: u64 = kinds.iter().map(weight_of).sum();
    for _ in 0..count {
        // Some follow hard on the one before: two faults at once find more than two in a row.
        at += if rng.chance(1, 3) { rng.between(MS, 60 * MS) } else { rng.between(gap / 2, gap * 3 / 2) };
        let mut ticket = rng.below(weights);
        let mut fault = Fault::Kill;
        for kind in kinds {
            if ticket < weight_of(kind) {
                fault = kind.0;
                break;
            }
            ticket -= weight_of(kind);
        }
        let node = rng.below(u64::from(nodes)) as u16;
        let target = if rng.chance(2, 5) { Target::LeaderOr(node) } else { Target::Node(node) };
        let longest = *rng.pick(&[50 * MS, 500 * MS, 2 * SECOND, 6 * SECOND]);
        let duration = rng.between(5 * MS, longest);
        let draw = rng.next_u64();
        if has(fault) && at < ends_at {
            plan.push(Planned { at, fault, target, duration, draw });
        }
    }
    plan
}
