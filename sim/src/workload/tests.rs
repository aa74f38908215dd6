//! Every kind of task is drawn.

use super::*;

#[test]
fn every_command_is_drawn_sometimes() {
    let mut seen_ops = std::collections::BTreeSet::new();
    let (mut once, mut scans, mut watched, mut together, mut hash_scans, mut set_scans, mut sorted_scans) =
        (0, 0, 0, 0, 0, 0, 0);
    let mut several = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut mix = Mix::draw(&mut rng);
        if seed % 2 == 1 {
            mix.settled = true;
            mix.add_hashes(&mut Rng::new(seed));
            mix.add_sets(&mut Rng::new(seed));
            mix.sorted.often = 4;
            mix.documents.often = 4;
            mix.lists.often = 4;
            mix.sketches.often = 4;
            mix.places.often = 4;
            mix.fading = Fading { often: 4, lifetime_ms_max: 100 };
            mix.streams.often = 4;
            mix.add_partitions(&mut Rng::new(seed));
        }
        let seen = BTreeMap::from([("r0".to_string(), "old".to_string())]);
        let mut number = 0;
        for _ in 0..300 {
            let mut unique = || {
                number += 1;
                format!("u{number}")
            };
            match mix.draw_task(&mut rng, &seen, &mut unique) {
                Task::Plain(commands) => seen_ops.extend(commands.iter().map(|command| command.op)),
                Task::Once(_) => once += 1,
                Task::Transaction { watch, .. } => watched += usize::from(!watch.is_empty()),
                Task::Scan => scans += 1,
                Task::Together(_) => together += 1,
                Task::Several(_) => several += 1,
                Task::HashScan => hash_scans += 1,
                Task::SetScan => set_scans += 1,
                Task::SortedScan => sorted_scans += 1,
            }
        }
    }
    assert_eq!(seen_ops.len(), 18, "{seen_ops:?}");
    assert!(several > 0);
    assert!(
        once > 0 && scans > 0 && watched > 0 && together > 0 && hash_scans > 0 && set_scans > 0 && sorted_scans > 0
    );
}
