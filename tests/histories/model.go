package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// known lists the commands that the model understands.
var known = map[string]bool{
	"GET": true, "SET": true, "SETPX": true, "SETNX": true, "SETIFEQ": true, "GETSET": true, "GETDEL": true,
	"APPEND": true, "INCR": true, "DEL": true, "EXISTS": true, "PEXPIRE": true, "PERSIST": true, "PTTL": true,
}

const never = int64(math.MaxInt64)

// slot is one key's state. From `expires` (nanoseconds) on the key may vanish by itself.
type slot struct {
	present bool
	value   string
	expires int64
}

// modelFor describes a group's keys to porcupine. A state is a []slot in the order of the group's keys.
//
// The model is not deterministic, for two reasons: an operation without a definite answer may have happened or
// not, and a key whose time has come may be gone or not yet gone. clockError says how many nanoseconds too early
// a node may take a time to live for over.
func modelFor(keys []string, clockError int64) porcupine.Model {
	place := map[string]int{}
	for i, key := range keys {
		place[key] = i
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any {
			empty := make([]slot, len(keys))
			for i := range empty {
				empty[i].expires = never
			}
			return []any{empty}
		},
		Step: func(state, input, _ any) []any {
			return steps(state.([]slot), input.(*operation), place, clockError)
		},
		Equal: func(a, b any) bool {
			x, y := a.([]slot), b.([]slot)
			for i := range x {
				if x[i] != y[i] {
					return false
				}
			}
			return true
		},
		Hash: func(state any) uint64 {
			hash := fnv.New64a()
			for _, s := range state.([]slot) {
				fmt.Fprintf(hash, "%t%s|%d|", s.present, s.value, s.expires)
			}
			return hash.Sum64()
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(*operation)) },
		DescribeState: func(state any) string {
			var parts []string
			for i, s := range state.([]slot) {
				if s.present {
					parts = append(parts, keys[i]+"="+s.value)
				} else {
					parts = append(parts, keys[i]+" absent")
				}
			}
			return strings.Join(parts, " ")
		},
	}
	return model.ToModel()
}

// steps returns every state that the operation may lead to; none if its replies do not fit.
func steps(before []slot, one *operation, place map[string]int, clockError int64) []any {
	finish := never
	certain := one.Outcome == "done"
	if certain {
		finish = *one.Return
	}
	// Keys of this operation whose time may have come.
	var due []int
	seen := map[int]bool{}
	for _, key := range one.keys() {
		at := place[key]
		if !seen[at] && before[at].present && before[at].expires <= finish {
			due = append(due, at)
		}
		seen[at] = true
	}
	var after []any
	if !certain {
		after = append(after, before)
	}
	for choice := 0; choice < 1<<len(due); choice++ {
		state := append([]slot(nil), before...)
		for bit, at := range due {
			if choice&(1<<bit) != 0 {
				state[at] = slot{expires: never}
			}
		}
		if executes(state, one, place, certain, clockError) {
			after = append(after, state)
		}
	}
	return after
}

// executes applies the whole operation to state; false if what was watched or answered does not fit.
func executes(state []slot, one *operation, place map[string]int, certain bool, clockError int64) bool {
	for _, w := range one.Watched {
		s := state[place[w.Key]]
		if s.present != (w.Value != nil) || (w.Value != nil && s.value != *w.Value) {
			return false
		}
	}
	for i := range one.Commands {
		c := &one.Commands[i]
		answer, possible := apply(&state[place[c.Key]], c, one.Invoke, clockError)
		if !possible || certain && !answer.matches(one.Replies[i]) {
			return false
		}
	}
	return true
}

// answer is what the model says a command replies.
type answer struct {
	kind   byte // 'n' nil, 'i' number, 't' text, 'l' a time to live of any length
	number int64
	text   string
}

func (a answer) matches(reply any) bool {
	switch a.kind {
	case 'n':
		return reply == nil
	case 't':
		text, ok := reply.(string)
		return ok && text == a.text
	}
	number, ok := reply.(float64)
	if a.kind == 'l' {
		return ok && number >= 0
	}
	return ok && number == float64(a.number)
}

func apply(s *slot, c *command, invoke, clockError int64) (answer, bool) {
	before := *s
	var argument string
	if c.Argument != nil {
		argument = *c.Argument
	}
	amount := int64(1)
	if c.Number != nil {
		amount = *c.Number
	}
	deadline := invoke + amount*1_000_000 - clockError
	flag := func(yes bool) answer {
		if yes {
			return answer{kind: 'i', number: 1}
		}
		return answer{kind: 'i'}
	}
	old := answer{kind: 'n'}
	if before.present {
		old = answer{kind: 't', text: before.value}
	}
	ok := answer{kind: 't', text: "OK"}
	switch c.Op {
	case "GET":
		return old, true
	case "EXISTS":
		return flag(before.present), true
	case "SET":
		*s = slot{true, argument, never}
		return ok, true
	case "SETPX":
		*s = slot{true, argument, deadline}
		return ok, true
	case "SETNX":
		if !before.present {
			*s = slot{true, argument, never}
		}
		return flag(!before.present), true
	case "SETIFEQ":
		if !before.present || c.Expected == nil || before.value != *c.Expected {
			return answer{kind: 'n'}, true
		}
		*s = slot{true, argument, never}
		return ok, true
	case "GETSET":
		*s = slot{true, argument, never}
		return old, true
	case "GETDEL":
		*s = slot{expires: never}
		return old, true
	case "DEL":
		*s = slot{expires: never}
		return flag(before.present), true
	case "APPEND":
		s.present, s.value = true, before.value+argument
		return answer{kind: 'i', number: int64(len([]rune(s.value)))}, true
	case "INCR":
		number := int64(0)
		if before.present {
			var err error
			if number, err = strconv.ParseInt(before.value, 10, 64); err != nil {
				return answer{}, false
			}
		}
		s.present, s.value = true, strconv.FormatInt(number+amount, 10)
		return answer{kind: 'i', number: number + amount}, true
	case "PEXPIRE":
		if before.present {
			s.expires = deadline
		}
		return flag(before.present), true
	case "PERSIST":
		s.expires = never
		return flag(before.present && before.expires != never), true
	case "PTTL":
		switch {
		case !before.present:
			return answer{kind: 'i', number: -2}, true
		case before.expires == never:
			return answer{kind: 'i', number: -1}, true
		}
		return answer{kind: 'l'}, true
	}
	return answer{}, false
}

// describe tells an operation in one line.
func describe(one *operation) string {
	var parts []string
	for _, w := range one.Watched {
		parts = append(parts, "WATCH "+w.Key)
	}
	for i, c := range one.Commands {
		text := c.Op + " " + c.Key
		if c.Argument != nil {
			text += " " + *c.Argument
		}
		if c.Expected != nil {
			text += " if " + *c.Expected
		}
		if c.Number != nil {
			text += " " + strconv.FormatInt(*c.Number, 10)
		}
		if one.Outcome == "done" {
			reply, _ := json.Marshal(one.Replies[i])
			text += " → " + string(reply)
		}
		parts = append(parts, text)
	}
	if one.Outcome != "done" {
		parts = append(parts, "("+one.Outcome+")")
	}
	return strings.Join(parts, "; ")
}
