package main

import (
	"bufio"
	"encoding/json"
	"io"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// operation, command and watched are the lines of a history; see sim/src/history.rs.
type operation struct {
	Client   int64     `json:"client"`
	Commands []command `json:"commands"`
	Watched  []watched `json:"watched,omitempty"`
	Invoke   int64     `json:"invoke"`
	Return   *int64    `json:"return"`
	Outcome  string    `json:"outcome"`
	Replies  []any     `json:"replies"`
}

type command struct {
	Op       string  `json:"op"`
	Key      string  `json:"key"`
	Argument *string `json:"argument,omitempty"`
	Number   *int64  `json:"number,omitempty"`
}

type watched struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

func (o *operation) writes() bool {
	for _, c := range o.Commands {
		if c.Op != "GET" && c.Op != "EXISTS" {
			return true
		}
	}
	return false
}

// recorder writes the history and counts. Its clock is monotonic and shared by all clients.
type recorder struct {
	origin time.Time
	ids    atomic.Int64

	mutex    sync.Mutex
	output   *bufio.Writer
	encoder  *json.Encoder
	failure  error
	outcomes map[string]int
	errors   map[string]int
	keys     map[string]bool
	written  []int64 // when each acknowledged write was answered
	slowest  int64
	timeouts int
	repeated int
	marks    []marked
	loadEnd  int64
}

type marked struct {
	name string
	at   int64
}

func newRecorder(file io.Writer) *recorder {
	output := bufio.NewWriterSize(file, 1<<20)
	return &recorder{origin: time.Now(), output: output, encoder: json.NewEncoder(output),
		outcomes: map[string]int{}, errors: map[string]int{}, keys: map[string]bool{},
		marks: []marked{{"start", 0}}}
}

func (r *recorder) now() int64 { return int64(time.Since(r.origin)) }

// newID names a client. One whose operation has no known end takes a new name for the next.
func (r *recorder) newID() int64 { return r.ids.Add(1) }

// add records one operation whose end, if it has one, is now.
func (r *recorder) add(o *operation, outcome string, replies []any) {
	o.Outcome, o.Replies = outcome, []any{}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	if outcome != "maybe" {
		o.Return = &now
	}
	if outcome == "done" {
		o.Replies = replies
		if o.writes() {
			r.written = append(r.written, now)
		}
	}
	r.slowest = max(r.slowest, now-o.Invoke)
	r.outcomes[outcome]++
	for _, c := range o.Commands {
		r.keys[c.Key] = true
	}
	if err := r.encoder.Encode(o); err != nil && r.failure == nil {
		r.failure = err
	}
}

// note counts an error by its first words.
func (r *recorder) note(text string, timedOut bool) {
	words := strings.Fields(text)
	if len(words) > 8 {
		words = words[:8]
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.errors[strings.Join(words, " ")]++
	if timedOut {
		r.timeouts++
	}
}

func (r *recorder) noteRepeat() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.repeated++
}

func (r *recorder) mark(name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.marks = append(r.marks, marked{name, r.now()})
}

func (r *recorder) endLoad() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.loadEnd = r.now()
}

func (r *recorder) allKeys() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var keys []string
	for key := range r.keys {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func (r *recorder) close(file io.Closer) error {
	if err := r.output.Flush(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return r.failure
}

// longestGap is the longest time within [from, to] without an acknowledged write, in nanoseconds.
func (r *recorder) longestGap(from, to int64) int64 {
	first := sort.Search(len(r.written), func(i int) bool { return r.written[i] >= from })
	last, longest := from, int64(0)
	for _, at := range r.written[first:] {
		if at > to {
			break
		}
		longest, last = max(longest, at-last), at
	}
	return max(longest, to-last)
}

func (r *recorder) summary() map[string]any {
	milliseconds := func(nanoseconds int64) float64 { return float64(nanoseconds/1000) / 1000 }
	var sections []map[string]any
	for i, one := range r.marks {
		end := r.loadEnd
		if i+1 < len(r.marks) {
			end = r.marks[i+1].at
		}
		sections = append(sections, map[string]any{"name": one.name, "at_ms": milliseconds(one.at),
			"gap_ms": milliseconds(r.longestGap(one.at, end))})
	}
	total := 0
	for _, count := range r.outcomes {
		total += count
	}
	return map[string]any{
		"operations": total, "done": r.outcomes["done"], "failed": r.outcomes["failed"], "maybe": r.outcomes["maybe"],
		"acknowledged_writes": len(r.written), "errors": r.errors, "keys": len(r.keys), "sections": sections,
		"slowest_ms": milliseconds(r.slowest), "timeouts": r.timeouts, "repeated_once": r.repeated,
		"longest_gap_ms": milliseconds(r.longestGap(0, r.loadEnd)),
	}
}
