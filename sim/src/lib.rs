//! A whole cluster of the shipping node in one thread, with simulated network, disks, clocks and clients.

pub mod callers;
pub mod chaos;
pub mod checkers;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod disk;
pub mod documents;
pub mod door;
mod events;
pub mod fading;
pub mod hashes;
pub mod history;
pub mod lists;
pub mod network;
pub mod places;
pub mod process;
pub mod report;
pub mod restless;
pub mod routers;
pub mod run;
pub mod scripts;
pub mod sets;
pub mod settings;
pub mod shrink;
pub mod sketches;
pub mod sorted;
pub mod streams;
pub mod trace;
pub mod workload;

/// What this crate itself counts of what was reached, so that it can tell what never was.
#[must_use]
pub fn probes() -> Vec<&'static str> {
    let mut probes = vec![
        cluster::SPACES_DROPPED,
        cluster::QUOTA_REACHED,
        cluster::RESTORED,
        cluster::TRAIL_NOTED,
        cluster::IMPOSTOR_LIED,
    ];
    probes.extend(cluster::PROBES);
    probes.extend(cluster::ADDRESS_PROBES);
    probes.extend(cluster::ALONE_PROBES);
    probes.extend(cluster::DOUBLE_PROBES);
    probes.extend(cluster::LOW_PROBES);
    probes.extend(cluster::GUEST_PROBES);
    probes.extend(cluster::KEY_PROBES);
    probes.extend(cluster::STEPPING_PROBES);
    probes.extend(process::PROBES);
    probes.extend(client::PROBES.concat());
    probes.extend(routers::PROBES);
    probes.extend(restless::PROBES);
    probes
}
