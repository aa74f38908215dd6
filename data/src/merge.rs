//! Several sorted layers read as one: where a key is in more than one, the newest layer's word counts.

use base::ordered::OrderedError;
use std::cmp::Ordering;
use std::iter::Peekable;

/// What a layer says of a key; `None` hides the key in older layers.
pub(crate) type Said<K, V> = Result<(K, Option<V>), OrderedError>;

/// A sorted layer.
pub(crate) type Sorted<'a, K, V> = Box<dyn Iterator<Item = Said<K, V>> + 'a>;

/// Reads layers, the newest first in `layers`, as one sorted sequence. After an error nothing follows.
pub(crate) struct Merge<'a, K, V> {
    layers: Vec<Peekable<Sorted<'a, K, V>>>,
}

impl<'a, K, V> Merge<'a, K, V> {
    /// Over the given layers, the newest first; each ascends and has no key twice.
    pub(crate) fn new(layers: Vec<Sorted<'a, K, V>>) -> Merge<'a, K, V> {
        Merge { layers: layers.into_iter().map(Iterator::peekable).collect() }
    }
}

impl<K: Ord, V> Iterator for Merge<'_, K, V> {
    type Item = Result<(K, V), OrderedError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut first: Option<usize> = None;
            for place in 0..self.layers.len() {
                let (earlier, rest) = self.layers.split_at_mut(place);
                let Some(own) = rest[0].peek() else { continue };
                let order = match (first.and_then(|at| earlier[at].peek()), own) {
                    (None, _) => Ordering::Greater,
                    // An error comes out at once.
                    (Some(Err(_)), _) => Ordering::Less,
                    (Some(_), Err(_)) => Ordering::Greater,
                    (Some(Ok((best, _))), Ok((key, _))) => best.cmp(key),
                };
                match order {
                    Ordering::Greater => first = Some(place),
                    // Hidden by a newer layer.
                    Ordering::Equal => drop(rest[0].next()),
                    Ordering::Less => {}
                }
            }
            match self.layers[first?].next()? {
                Ok((key, Some(value))) => return Some(Ok((key, value))),
                Ok((_, None)) => {}
                Err(error) => {
                    self.layers.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Layer = Vec<(u8, Option<u8>)>;

    fn merged(layers: &[Layer]) -> Result<Vec<(u8, u8)>, OrderedError> {
        let sorted = |layer: &Layer| -> Sorted<'_, u8, u8> { Box::new(layer.clone().into_iter().map(Ok)) };
        Merge::new(layers.iter().map(sorted).collect()).collect()
    }

    #[test]
    fn the_newest_word_counts() {
        let mut rng = base::Rng::new(1);
        for _ in 0..2000 {
            let mut layers = Vec::new();
            let mut expected: BTreeMap<u8, Option<u8>> = BTreeMap::new();
            for _ in 0..rng.below(4) {
                let layer: BTreeMap<u8, Option<u8>> = (0..rng.below(6))
                    .map(|_| (rng.below(8) as u8, rng.chance(1, 2).then(|| rng.below(200) as u8)))
                    .collect();
                // Layers come newest first here.
                for (key, value) in &layer {
                    expected.entry(*key).or_insert(*value);
                }
                layers.push(layer.into_iter().collect());
            }
            let expected: Vec<(u8, u8)> = expected.into_iter().filter_map(|(k, v)| Some((k, v?))).collect();
            assert_eq!(merged(&layers).unwrap(), expected, "{layers:?}");
        }
    }

    #[test]
    fn an_error_ends_it() {
        let error = OrderedError { text: "unreadable".to_owned(), full: false };
        let broken: Sorted<'_, u8, u8> = Box::new([Ok((1, Some(1))), Err(error.clone())].into_iter());
        let whole: Sorted<'_, u8, u8> = Box::new([Ok((2, Some(2))), Ok((9, Some(9)))].into_iter());
        let mut merge = Merge::new(vec![whole, broken]);
        assert_eq!(merge.next(), Some(Ok((1, 1))));
        assert_eq!(merge.next(), Some(Err(error)));
        assert_eq!(merge.next(), None);
    }
}
