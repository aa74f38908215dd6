// drive: a mixed load on RESP servers that records what was asked and answered.
//
// It starts with its clients at work, and obeys lines on standard input:
//
//	mark NAME   begins a new section: the longest time without an acknowledged write is told for each
//	nodes A,B   these are the nodes from now on: some have joined or left, or all have moved
//	stop        ends the load, reads every key through every node, writes the summary to standard output, and exits
//
// End of input means stop. The history is written as sim/src/history.rs describes it.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type options struct {
	nodes   *nodes
	timeout time.Duration
	rate    int
	clients int
	once    bool
	expiry  bool
	epoch   time.Duration
	settle  time.Duration
	tag     string
}

// nodes are the addresses that clients ask. They may change while clients are at work.
type nodes struct{ addresses atomic.Pointer[[]string] }

func newNodes(list string) *nodes {
	n := &nodes{}
	n.set(list)
	return n
}

func (n *nodes) set(list string) {
	addresses := strings.Split(list, ",")
	n.addresses.Store(&addresses)
}

func (n *nodes) all() []string { return *n.addresses.Load() }

// at gives each number one of them.
func (n *nodes) at(number int) string {
	all := n.all()
	return all[number%len(all)]
}

func main() {
	var o options
	addresses := flag.String("addrs", "127.0.0.1:6379", "nodes, separated by commas")
	path := flag.String("history", "history.jsonl", "where to write the history")
	flag.IntVar(&o.clients, "clients", 40, "connections")
	flag.IntVar(&o.rate, "rate", 2000, "operations a second, of all clients together")
	flag.DurationVar(&o.timeout, "timeout", 7*time.Second, "how long a client waits for one answer")
	flag.BoolVar(&o.once, "once", false, "repeat some operations under DICTUM.ONCE until their outcome is known")
	flag.BoolVar(&o.expiry, "expiry", false, "use keys with a time to live as well")
	flag.DurationVar(&o.epoch, "epoch", 2*time.Second, "how long a set of keys is in use")
	flag.DurationVar(&o.settle, "settle", 60*time.Second, "how long the reads at the end may take to succeed")
	flag.Parse()
	o.nodes = newNodes(*addresses)
	o.tag = strconv.FormatInt(time.Now().UnixMilli()%(36*36*36*36), 36)

	file, err := os.Create(*path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drive:", err)
		os.Exit(1)
	}
	record := newRecorder(file)
	var stop atomic.Bool
	var running sync.WaitGroup
	for number := range o.clients {
		running.Add(1)
		go func() {
			defer running.Done()
			newClient(&o, record, number).work(&stop)
		}()
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() && input.Text() != "stop" {
		if name, is := strings.CutPrefix(input.Text(), "mark "); is {
			record.mark(name)
		} else if list, is := strings.CutPrefix(input.Text(), "nodes "); is {
			o.nodes.set(list)
		}
	}
	stop.Store(true)
	record.endLoad()
	running.Wait()
	unread := readEverything(&o, record)
	if err := record.close(file); err != nil {
		fmt.Fprintln(os.Stderr, "drive:", err)
		os.Exit(1)
	}
	summary := record.summary()
	summary["final_unread"] = unread
	line, _ := json.Marshal(summary)
	fmt.Println(string(line))
}
