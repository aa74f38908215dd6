// Small load programs that bench/peers and bench/store need beside redis-benchmark and etcd's own tool.
// Standard library only, so that building it needs nothing but Go.
module dictum/bench/drive

go 1.24
