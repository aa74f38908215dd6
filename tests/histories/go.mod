// The independent judge of recorded histories: porcupine with a model of our own.
module dictum/tests/histories

go 1.24

require github.com/anishathalye/porcupine v1.3.1
