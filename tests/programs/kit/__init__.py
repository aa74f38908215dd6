"""The parts of tests/programs/run.

packages: what is fetched and built, in a cache outside of the repository · tools: redis-cli and redis-benchmark ·
clients: the sessions of client libraries · jobs: queue libraries at work while leaders die · ycsb: the workloads A to F ·
command: the command line. Processes and clusters are those of tests/faults/harness."""
