// histories: says whether recorded histories are linearizable, by porcupine.
//
//	histories [-timeout 120s] [-clock-error 0s] [-picture FILE.html] FILE.jsonl...
//
// Exit code 0: every file is linearizable; 1: one is not; 2: a file cannot be read; 3: one could not be decided in
// time.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

func main() {
	timeout := flag.Duration("timeout", 2*time.Minute, "for one group of keys")
	clockError := flag.Duration("clock-error", 0, "how much too early a node may take a time to live for over")
	picture := flag.String("picture", "", "where to draw the first group that is not linearizable")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	worst := 0
	for _, path := range flag.Args() {
		file, err := os.Open(path)
		if err == nil {
			var history []operation
			history, err = readHistory(file)
			file.Close()
			if err == nil {
				verdict := check(history, clockError.Nanoseconds(), *timeout)
				worst = max(worst, report(path, verdict, *picture))
				continue
			}
		}
		fmt.Fprintf(os.Stderr, "histories: %s: %v\n", path, err)
		worst = 2
	}
	os.Exit(worst)
}

// verdict is what was found in one history.
type verdict struct {
	operations, groups, largest, maybe int
	elapsed                            time.Duration
	violations, undecided              []finding
}

// finding is one group of keys that is not linearizable, or that was given up.
type finding struct {
	group group
	model porcupine.Model
	info  porcupine.LinearizationInfo
	calls []porcupine.Operation
}

func check(history []operation, clockError int64, timeout time.Duration) verdict {
	started := time.Now()
	groups := groupsOf(history)
	found := verdict{operations: len(history), groups: len(groups)}
	for i := range history {
		if history[i].Outcome == "maybe" {
			found.maybe++
		}
	}
	work := make(chan group)
	var mutex sync.Mutex
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Add(1)
		go func() {
			defer running.Done()
			for one := range work {
				calls := callsOf(one.operations)
				model := modelFor(one.keys, clockError)
				result, info := porcupine.CheckOperationsVerbose(model, calls, timeout)
				mutex.Lock()
				found.largest = max(found.largest, len(calls))
				switch result {
				case porcupine.Illegal:
					found.violations = append(found.violations, finding{one, model, info, calls})
				case porcupine.Unknown:
					found.undecided = append(found.undecided, finding{one, model, info, calls})
				}
				mutex.Unlock()
			}
		}()
	}
	for _, one := range groups {
		work <- one
	}
	close(work)
	running.Wait()
	found.elapsed = time.Since(started)
	return found
}

// callsOf gives porcupine what it is to order. What failed has no effect and is left out; so are reads without an
// answer, which say nothing. What may have happened returns at the end of time.
func callsOf(operations []operation) []porcupine.Operation {
	var calls []porcupine.Operation
	for i := range operations {
		one := &operations[i]
		end := int64(math.MaxInt64)
		switch {
		case one.Outcome == "failed" || one.Outcome == "maybe" && onlyReads(one):
			continue
		case one.Outcome == "done":
			end = *one.Return
		}
		calls = append(calls, porcupine.Operation{ClientId: one.Client, Input: one, Call: one.Invoke, Return: end})
	}
	return calls
}

func onlyReads(one *operation) bool {
	for _, c := range one.Commands {
		if c.Op != "GET" && c.Op != "EXISTS" && c.Op != "PTTL" {
			return false
		}
	}
	return true
}

// report prints a verdict and returns the exit code that it stands for.
func report(path string, found verdict, picture string) int {
	fmt.Printf("%s: %d operations (%d of uncertain effect), %d groups of keys (the largest has %d), %.2f s: ", path,
		found.operations, found.maybe, found.groups, found.largest, found.elapsed.Seconds())
	switch {
	case len(found.violations) > 0:
		fmt.Printf("NOT LINEARIZABLE in %d groups\n", len(found.violations))
		for i, one := range found.violations[:min(3, len(found.violations))] {
			fmt.Print(explain(one))
			if i == 0 && picture != "" {
				if err := porcupine.VisualizePath(one.model, one.info, picture); err != nil {
					fmt.Fprintf(os.Stderr, "histories: %s: %v\n", picture, err)
				}
			}
		}
		return 1
	case len(found.undecided) > 0:
		fmt.Printf("UNDECIDED in %d groups\n", len(found.undecided))
		return 3
	}
	fmt.Println("linearizable")
	return 0
}

// explain shows the longest order that was found and the operations that none could continue with.
func explain(one finding) string {
	var text strings.Builder
	fmt.Fprintf(&text, "  keys %s: no order explains these answers.\n", strings.Join(one.group.keys, " "))
	var longest []porcupine.Operation
	for _, partition := range one.info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	fmt.Fprintf(&text, "  %d of %d could be ordered; the last of them:\n", len(longest), len(one.calls))
	ordered := map[any]bool{}
	for i, call := range longest {
		ordered[call.Input] = true
		if i >= len(longest)-5 {
			fmt.Fprintf(&text, "    line %d: %s\n", call.Input.(*operation).line, describe(call.Input.(*operation)))
		}
	}
	text.WriteString("  left over, the earliest answers first:\n")
	shown := 0
	for _, call := range one.calls {
		if !ordered[call.Input] && call.Return != math.MaxInt64 && shown < 5 {
			fmt.Fprintf(&text, "    line %d: %s\n", call.Input.(*operation).line, describe(call.Input.(*operation)))
			shown++
		}
	}
	return text.String()
}
