package main

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"
)

// judge says what the checker makes of a history, written one operation a line as
// "invoke return outcome command…[; command…] -> reply, reply".
func judge(t *testing.T, lines string) string {
	t.Helper()
	var text strings.Builder
	for number, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		text.WriteString(toJSON(t, number, strings.TrimSpace(line)))
	}
	history, err := readHistory(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	found := check(history, 0, 10*time.Second)
	switch {
	case len(found.violations) > 0:
		return "violated"
	case len(found.undecided) > 0:
		return "undecided"
	}
	return "linearizable"
}

func toJSON(t *testing.T, client int, line string) string {
	t.Helper()
	head, replies, _ := strings.Cut(line, " -> ")
	fields := strings.SplitN(head, " ", 4)
	if len(fields) != 4 {
		t.Fatalf("cannot read %q", line)
	}
	var commands []string
	for _, one := range strings.Split(fields[3], "; ") {
		words := strings.Fields(one)
		text := fmt.Sprintf(`"op":%q,"key":%q`, words[0], words[1])
		if len(words) > 2 {
			text += fmt.Sprintf(`,"argument":%q`, words[2])
		}
		if len(words) > 3 {
			text += `,"number":` + words[3]
		}
		commands = append(commands, "{"+text+"}")
	}
	end := fields[1]
	if end == "-" {
		end = "null"
	}
	return fmt.Sprintf("{\"client\":%d,\"commands\":[%s],\"invoke\":%s,\"return\":%s,\"outcome\":%q,\"replies\":[%s]}\n",
		client, strings.Join(commands, ","), fields[0], end, fields[2], replies)
}

func TestHistories(t *testing.T) {
	cases := []struct{ name, want, history string }{
		{"one after the other", "linearizable", `
			1 2 done SET k a -> "OK"
			3 4 done GET k -> "a"
			5 6 done DEL k -> 1
			7 8 done GET k -> null`},
		{"an acknowledged write is lost", "violated", `
			1 2 done SET k a -> "OK"
			3 4 done SET k b -> "OK"
			5 6 done GET k -> "a"`},
		{"an acknowledged key is gone", "violated", `
			1 2 done SET k a -> "OK"
			3 4 done GET k -> null`},
		{"a read returns what nobody wrote", "violated", `
			1 2 done SET k a -> "OK"
			3 4 done GET k -> "z"`},
		{"a stale read after a new one", "violated", `
			1 2 done SET k a -> "OK"
			3 20 done SET k b -> "OK"
			4 5 done GET k -> "b"
			6 7 done GET k -> "a"`},
		{"overlapping writes may have either order", "linearizable", `
			1 10 done SET k a -> "OK"
			2 9 done SET k b -> "OK"
			11 12 done GET k -> "a"`},
		{"a maybe that happened", "linearizable", `
			1 2 done SET k a -> "OK"
			3 - maybe SET k b
			4 5 done GET k -> "a"
			6 7 done GET k -> "b"`},
		{"a maybe that happened and was undone", "violated", `
			1 2 done SET k a -> "OK"
			3 - maybe SET k b
			4 5 done GET k -> "b"
			6 7 done GET k -> "a"`},
		{"a maybe that never happened", "linearizable", `
			1 2 done SET k a -> "OK"
			3 - maybe SET k b
			4 5 done GET k -> "a"`},
		{"what failed must have no effect", "violated", `
			1 2 done SET k a -> "OK"
			3 4 failed SET k b
			5 6 done GET k -> "b"`},
		{"a retry applied twice", "violated", `
			1 2 done INCR c -> 1
			3 4 done INCR c -> 3`},
		{"a counter with a maybe between", "linearizable", `
			1 2 done INCR c -> 1
			2 - maybe INCR c
			3 4 done INCR c -> 3`},
		{"an append applied twice", "violated", `
			1 2 done APPEND k ab -> 2
			3 4 done GET k -> "abab"`},
		{"a transaction seen in halves", "violated", `
			1 2 done SET a 1; SET b 1 -> "OK","OK"
			3 10 done SET a 2; SET b 2 -> "OK","OK"
			4 9 done GET a; GET b -> "2","1"`},
		{"a transaction seen whole", "linearizable", `
			1 2 done SET a 1; SET b 1 -> "OK","OK"
			3 10 done SET a 2; SET b 2 -> "OK","OK"
			4 9 done GET a; GET b -> "2","2"`},
		{"a key that is alive after another saw it expired", "violated", `
			1 2 done SETPX k a 1 -> "OK"
			3000000 3000001 done GET k -> null
			3000002 3000003 done GET k -> "a"`},
		{"a key that expires too early", "violated", `
			1 2 done SETPX k a 100 -> "OK"
			3000000 3000001 done GET k -> null`},
		{"a key that expires late", "linearizable", `
			1 2 done SETPX k a 1 -> "OK"
			3000000 3000001 done GET k -> "a"
			3000002 3000003 done GET k -> null`},
		{"SETNX succeeds twice", "violated", `
			1 2 done SETNX k a -> 1
			3 4 done SETNX k b -> 1`},
		{"GETSET shows each value once", "violated", `
			1 2 done SET k a -> "OK"
			3 10 done GETSET k b -> "a"
			3 10 done GETSET k c -> "a"`},
	}
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			if got := judge(t, one.history); got != one.want {
				t.Errorf("%s, expected %s", got, one.want)
			}
		})
	}
}

func TestTransactionThatIgnoredItsWatch(t *testing.T) {
	done := `"outcome":"done","replies":["OK"]}` + "\n"
	set := func(value string) string { return `"commands":[{"op":"SET","key":"k","argument":"` + value + `"}],` }
	lines := `{"client":1,` + set("a") + `"invoke":1,"return":2,` + done +
		`{"client":2,` + set("b") + `"invoke":3,"return":4,` + done +
		`{"client":3,` + set("c") + `"watched":[{"key":"k","value":"a"}],"invoke":5,"return":6,` + done
	history, err := readHistory(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if found := check(history, 0, time.Second); len(found.violations) != 1 {
		t.Error("a transaction that overwrote a change of a watched key was not seen")
	}
}

func TestLinesThatCannotBeRead(t *testing.T) {
	for _, line := range []string{
		`{"client":1}`, `x`,
		`{"client":1,"commands":[{"op":"NOPE","key":"k"}],"invoke":1,"return":2,"outcome":"done","replies":["OK"]}`,
		`{"client":1,"commands":[{"op":"GET","key":"k"}],"invoke":1,"return":2,"outcome":"done","replies":[]}`,
		`{"client":1,"commands":[{"op":"GET","key":"k"}],"invoke":1,"return":null,"outcome":"done","replies":[null]}`,
		`{"client":1,"commands":[{"op":"GET","key":"k"}],"invoke":1,"return":2,"outcome":"fine","replies":[null]}`,
	} {
		if _, err := readHistory(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("accepted: %s", line)
		}
	}
}

// A long honest history is accepted, and a single changed answer in it is found.
func TestOneForgedAnswerAmongThousands(t *testing.T) {
	chance := rand.New(rand.NewSource(1))
	var history []operation
	values := map[string]string{}
	text := func(s string) *string { return &s }
	clock := int64(0)
	for i := range 20000 {
		key := fmt.Sprintf("k%d", chance.Intn(100))
		clock += 10
		end := clock + 5
		one := operation{Client: i % 10, Invoke: clock, Return: &end, Outcome: "done", line: i + 1}
		if chance.Intn(2) == 0 {
			values[key] = fmt.Sprintf("v%d", i)
			one.Commands, one.Replies = []command{{Op: "SET", Key: key, Argument: text(values[key])}}, []any{"OK"}
		} else {
			one.Commands, one.Replies = []command{{Op: "GET", Key: key}}, []any{nil}
			if value, there := values[key]; there {
				one.Replies[0] = value
			}
		}
		history = append(history, one)
	}
	if found := check(history, 0, 10*time.Second); len(found.violations)+len(found.undecided) > 0 {
		t.Fatal("an honest history was refused")
	}
	for i := len(history) / 2; ; i++ {
		if history[i].Commands[0].Op == "GET" && history[i].Replies[0] != nil {
			history[i].Replies = []any{"forged"}
			break
		}
	}
	found := check(history, 0, 10*time.Second)
	if len(found.violations) != 1 {
		t.Fatalf("%d violations", len(found.violations))
	}
	if text := explain(found.violations[0]); !strings.Contains(text, "forged") {
		t.Errorf("the explanation does not show the forged answer:\n%s", text)
	}
}
