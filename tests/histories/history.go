package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
)

// operation is one line of a history. The format is described in sim/src/history.rs.
type operation struct {
	Client   int       `json:"client"`
	Commands []command `json:"commands"`
	Watched  []watched `json:"watched"`
	Invoke   int64     `json:"invoke"`
	Return   *int64    `json:"return"`
	Outcome  string    `json:"outcome"`
	Replies  []any     `json:"replies"`

	line int
}

type command struct {
	Op       string  `json:"op"`
	Key      string  `json:"key"`
	Argument *string `json:"argument"`
	Expected *string `json:"expected"`
	Number   *int64  `json:"number"`
}

type watched struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

// readHistory reads JSON lines and refuses what it does not understand: a checker that skips lines proves nothing.
func readHistory(from io.Reader) ([]operation, error) {
	var history []operation
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 1<<20), 1<<30)
	for number := 1; lines.Scan(); number++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var one operation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		one.line = number
		switch one.Outcome {
		case "done":
			if one.Return == nil || len(one.Replies) != len(one.Commands) || *one.Return < one.Invoke {
				return nil, fmt.Errorf("line %d: done, but without a reply for each command and a later return", number)
			}
		case "maybe", "failed":
		default:
			return nil, fmt.Errorf("line %d: unknown outcome %q", number, one.Outcome)
		}
		if len(one.Commands) == 0 {
			return nil, fmt.Errorf("line %d: no command", number)
		}
		for _, c := range one.Commands {
			if !known[c.Op] {
				return nil, fmt.Errorf("line %d: unknown command %q", number, c.Op)
			}
		}
		history = append(history, one)
	}
	return history, lines.Err()
}

func (o *operation) keys() []string {
	var keys []string
	for _, c := range o.Commands {
		keys = append(keys, c.Key)
	}
	for _, w := range o.Watched {
		keys = append(keys, w.Key)
	}
	return keys
}

// group is the part of a history that concerns keys which transactions tie together. Groups are independent of
// each other, so each is checked alone.
type group struct {
	keys       []string
	operations []operation
}

func groupsOf(history []operation) []group {
	parent := map[string]string{}
	var root func(string) string
	root = func(key string) string {
		if parent[key] != key {
			parent[key] = root(parent[key])
		}
		return parent[key]
	}
	for i := range history {
		keys := history[i].keys()
		for _, key := range keys {
			if _, there := parent[key]; !there {
				parent[key] = key
			}
			parent[root(key)] = root(keys[0])
		}
	}
	found := map[string]*group{}
	for key := range parent {
		at := root(key)
		if found[at] == nil {
			found[at] = &group{}
		}
		found[at].keys = append(found[at].keys, key)
	}
	for i := range history {
		one := found[root(history[i].Commands[0].Key)]
		one.operations = append(one.operations, history[i])
	}
	var groups []group
	for _, one := range found {
		sort.Strings(one.keys)
		groups = append(groups, *one)
	}
	sort.Slice(groups, func(i, j int) bool { return groups[i].keys[0] < groups[j].keys[0] })
	return groups
}
