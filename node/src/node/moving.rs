//! What this node moves, as it and the others tell it; and what its clients feel of that. See [`crate::transfer::movement`].

use super::Node;

impl Node {
    /// Timers are looked at.
    pub(crate) fn tick_movement(&mut self) {
        let Some(probe) = self.movement.tick(self.now.time) else { return };
        if let Some(name) = probe {
            self.probe(name);
        }
        // Whose state is being sent is awake.
        let left = self.groups.iter_awake().map(|group| group.transfers.left(group.partition.tree.bytes())).sum();
        self.movement.moves.left_bytes = left;
    }
}
