"""The parts of tests/faults/run.

processes: starting, ending and waiting · cluster: nodes and what they say of themselves · load: the recorded load and
the checkers · process_faults, disk_faults, network_faults: the scenarios · command: the command line."""
