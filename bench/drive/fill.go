package main

import (
	"flag"
	"fmt"
	"strings"
	"time"
)

// keyName is the key that redis-benchmark makes of a random number: 16 bytes.
func keyName(number int) string { return fmt.Sprintf("key:%012d", number) }

// fill writes every key that `redis-benchmark -r KEYS` may ask for, so that a GET row reads values, not misses.
func fill(arguments []string) {
	flags := flag.NewFlagSet("fill", flag.ExitOnError)
	address := flags.String("addr", "127.0.0.1:6379", "RESP server")
	keys := flags.Int("keys", 100000, "number of keys")
	size := flags.Int("size", 256, "bytes of a value")
	flags.Parse(arguments)
	const pipeline = 500
	value := strings.Repeat("x", *size)
	server, err := dial(*address, 5*time.Second)
	stopOn(err, "connecting to "+*address)
	for first := 0; first < *keys; first += pipeline {
		last := min(first+pipeline, *keys)
		for number := first; number < last; number++ {
			server.queue("SET", keyName(number), value)
		}
		stopOn(server.flush(), "writing keys")
		for number := first; number < last; number++ {
			stopOn(server.receive(), "an answer to SET")
		}
	}
	printJSON(map[string]any{"keys": *keys})
}
