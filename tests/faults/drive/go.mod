// The load of tests/faults/run. Standard library only.
module dictum/tests/faults/drive

go 1.24
