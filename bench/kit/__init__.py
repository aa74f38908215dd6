"""The parts of the benchmarks: machine (processes, quietness), install, cluster, sides, and each program's rows and command line."""
