//! Which buckets there are beside the default one, and what their clients ask.

use base::Rng;

use super::Mix;

/// The bucket that is on disk as the default one is.
pub const PLAIN: &str = "p";

/// The bucket that is in the memories of the nodes only.
pub const IN_MEMORY: &str = "e";

/// The bucket that clients drop now and then: nothing is promised of what is in it, except that everybody agrees.
pub const DROPPED: &str = "d";

/// The bucket whose keys have a default time to live, and perhaps short values only.
pub const TIMED: &str = "t";

/// The bucket that refuses at its quota. It is in the memories of the nodes only, too.
pub const BOUNDED: &str = "q";

/// The bucket that evicts at its quota.
pub const CACHED: &str = "k";

impl Mix {
    /// Adds buckets whose entries have terms.
    pub fn add_terms(&mut self, rng: &mut Rng) {
        let timed = ["TTL 1 VALUE-BYTES-MAX 64", "TTL 3", "TTL 2 VALUE-BYTES-MAX 8192", "TTL 5 VALUE-BYTES-MAX 64"];
        let bounded =
            ["KIND ephemeral QUOTA 700", "KIND ephemeral QUOTA 1500", "KIND ephemeral QUOTA 20000 VALUE-BYTES-MAX 512"];
        let (timed, bounded) = ((TIMED, *rng.pick(&timed)), (BOUNDED, *rng.pick(&bounded)));
        match rng.below(3) {
            0 => self.buckets.push(timed),
            1 => self.buckets.push(bounded),
            _ => self.buckets.extend([timed, bounded]),
        }
        let evicting = [
            "KIND cache QUOTA 450 POLICY lru",
            "KIND cache QUOTA 600 POLICY lfu",
            "KIND cache QUOTA 600",
            "KIND cache QUOTA 800 POLICY fifo",
            "KIND cache QUOTA 1000 POLICY s3-fifo",
            "KIND cache QUOTA 150000 POLICY lru",
        ];
        if rng.chance(2, 3) {
            // Two clients at least, for it needs many keys.
            self.buckets.insert(0, (CACHED, *rng.pick(&evicting)));
            self.clients = self.clients.max(self.buckets.len() as u64 + 3);
        }
        self.clients = self.clients.max(self.buckets.len() as u64 + 1);
    }

    /// Gives buckets that are on disk budgets so small that what goes through several elements passes them.
    pub fn add_budgets(&mut self, rng: &mut Rng) {
        for (name, settings) in &mut self.buckets {
            if *name == PLAIN && rng.chance(2, 3) {
                *settings = match (*settings, rng.chance(1, 2)) {
                    ("", true) => "WORK-MAX 350",
                    ("", false) => "WORK-MAX 500",
                    ("PARTITIONS 2", _) => "PARTITIONS 2 WORK-MAX 400",
                    ("PARTITIONS 3", _) => "PARTITIONS 3 WORK-MAX 450",
                    (other, _) => other,
                };
            }
        }
    }

    /// Cuts buckets into partitions.
    pub fn add_partitions(&mut self, rng: &mut Rng) {
        self.parted = true;
        if !self.buckets.iter().any(|(name, _)| *name == PLAIN) {
            self.buckets.push((PLAIN, ""));
        }
        for (name, settings) in &mut self.buckets {
            match *name {
                PLAIN => *settings = *rng.pick(&["PARTITIONS 2", "PARTITIONS 3", "PARTITIONS 8"]),
                IN_MEMORY => *settings = *rng.pick(&["KIND ephemeral PARTITIONS 2", "KIND ephemeral PARTITIONS 5"]),
                DROPPED => *settings = *rng.pick(&["", "PARTITIONS 4"]),
                // A quota that is made small has no share in which a long element of a list has room, and the model is not told how long that is.
                CACHED if self.settled => {
                    *settings = *rng
                        .pick(&["KIND cache QUOTA 1300 PARTITIONS 2", "KIND cache QUOTA 1800 POLICY lru PARTITIONS 3"])
                }
                _ => {}
            }
        }
        self.clients = self.clients.max(self.buckets.len() as u64 + 2);
    }

    /// Whether a bucket may have several partitions.
    #[must_use]
    pub fn parts(&self, bucket: &str) -> bool {
        self.parted && [PLAIN, IN_MEMORY, DROPPED, CACHED].contains(&bucket)
    }

    /// The mix of a client of one of the buckets.
    #[must_use]
    pub fn of_bucket(&self, name: &str) -> Mix {
        let mut mix = self.clone();
        mix.parted = self.parts(name);
        mix.weights[6] = if mix.parted && name == PLAIN { 2 } else { 0 };
        // Of a hash a default time to live begins with the hash, which the model does not know of its fields.
        if name == TIMED || name == BOUNDED && !self.settled {
            mix.hashes = 0;
            mix.sets.often = 0;
            mix.sorted.often = 0;
            mix.documents.often = 0;
            mix.lists.often = 0;
            // Of one that is made again the model cannot tell by its value which one it is.
            mix.sketches.often = 0;
        }
        // A group begins with its stream, and goes with it.
        if [TIMED, BOUNDED, CACHED].contains(&name) {
            mix.streams.often = 0;
        }
        mix.documents.only_whole = name == CACHED;
        // None of them is one register as a whole.
        if [TIMED, BOUNDED, CACHED].contains(&name) {
            (mix.places.often, mix.fading.often) = (0, 0);
        }
        (mix.sorted.only_wide, mix.sorted.lasting) = (name == CACHED, false);
        mix.sets.only_wide = name == CACHED;
        mix.sets.moves = name != BOUNDED;
        mix.sets.lasting = false;
        // An eviction is a removal of one key. HSCAN is for the default bucket.
        (mix.only_wide, mix.lasting_fields) = (name == CACHED, false);
        mix
    }
}
