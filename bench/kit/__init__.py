"""The parts of bench/peers: machine (processes, quietness), install, sides, rows, report, run."""
