"""The parts of tests/operators/run.

living: the cluster as its operator has it · book: entries that must be there at the end · clocks: a node with a wrong clock ·
steps: what happens in the year · closing: what must hold at its end · command: the command line."""
