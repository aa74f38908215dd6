"""The parts of tests/faults/run, some of which tests/operators/run and tests/programs/run use as well.

processes: starting, ending and waiting · build: the programs · cluster: nodes and what they say of themselves · client: a
connection to one node · load: the recorded load and the checkers · disks: small disks · process_faults, disk_faults,
store_faults, network_faults: the scenarios · command: the command line."""
