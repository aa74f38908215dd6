//go:build tools

package main

// Keeps the load generator among the requirements; it is built by its own path.
import _ "go.etcd.io/etcd/v3/tools/benchmark/cmd"
