// drive: the small load programs of bench/store and bench/types. Each prints one line of JSON.
//
//	drive load    -addr HOST:PORT -command get|set -choose uniform|zipfian|sequential   histogram, stalls
//	drive fill    -addr HOST:PORT -keys 100000 -size 256        every key that redis-benchmark -r may ask for
//	drive packets -pipeline 16 WORD… ";" WORD…                  operations of several commands
//	drive publish -subscribe A,B,C -subscribers 10              messages to subscribers on several nodes
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	arguments := os.Args[2:]
	switch os.Args[1] {
	case "load":
		runLoad(arguments)
	case "fill":
		fill(arguments)
	case "packets":
		packets(arguments)
	case "publish":
		publish(arguments)
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: drive load|fill|packets|publish [options]   (drive fill -help lists the options)")
	os.Exit(2)
}

// stopOn ends the program with a message when something failed that a measurement cannot survive.
func stopOn(err error, doing string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "drive: %s: %v\n", doing, err)
		os.Exit(1)
	}
}

func printJSON(value any) {
	line, err := json.Marshal(value)
	stopOn(err, "writing the result")
	fmt.Println(string(line))
}

// latencies holds one figure per operation, in microseconds.
type latencies []uint32

// milliseconds returns the quantile q (0..1). It expects sorted figures.
func (l latencies) milliseconds(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	index := min(len(l)-1, int(float64(len(l))*q))
	return float64(l[index]) / 1000
}

func (l latencies) sort() { sort.Slice(l, func(i, j int) bool { return l[i] < l[j] }) }
