// Small load programs that bench/store and bench/types need beside redis-benchmark.
// Standard library only, so that building it needs nothing but Go.
module dictum/bench/drive

go 1.24
