package main

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func TestOutcomes(t *testing.T) {
	cases := []struct {
		replies []any
		err     error
		want    string
	}{
		{[]any{"OK"}, nil, "done"},
		{[]any{nil}, nil, "done"},
		{[]any{errorReply("CLUSTERDOWN no leader")}, nil, "failed"},
		{[]any{errorReply("UNKNOWN it may have been done")}, nil, "maybe"},
		{[]any{errorReply("LOADING")}, nil, "failed"},
		{nil, errors.New("connection reset"), "maybe"},
	}
	for _, one := range cases {
		if got := outcomeOf(one.replies, one.err); got != one.want {
			t.Errorf("%v, %v: %s, expected %s", one.replies, one.err, got, one.want)
		}
	}
}

func TestRepliesOfTransactions(t *testing.T) {
	queued := []any{"OK", "QUEUED", "QUEUED"}
	if got := executed(append(queued, []any{"OK", int64(1)})); len(got) != 2 || outcomeOf(got, nil) != "done" {
		t.Errorf("executed: %v", got)
	}
	if got := executed(append(queued, nil)); len(got) != 1 || got[0] != nil {
		t.Errorf("a watched key had changed: %v", got)
	}
	refused := []any{"OK", errorReply("CLUSTERDOWN no leader"), errorReply("EXECABORT Transaction discarded")}
	if got := outcomeOf(executed(refused), nil); got != "failed" {
		t.Errorf("refused while queueing: %s", got)
	}
	if got := outcomeOf(executed(append(queued, errorReply("UNKNOWN"))), nil); got != "maybe" {
		t.Errorf("EXEC without a definite answer: %s", got)
	}
	if got := outcomeOf(executed(append(queued, []any{"OK", errorReply("ERR")})), nil); got != "maybe" {
		t.Errorf("an error inside EXEC: %s", got)
	}
}

func TestLongestGap(t *testing.T) {
	record := newRecorder(&bytes.Buffer{})
	for _, at := range []int64{10, 20, 70, 80} {
		record.written = append(record.written, at*int64(time.Millisecond))
	}
	cases := []struct{ from, to, want int64 }{
		{0, 100, 50}, {0, 20, 10}, {30, 70, 40}, {75, 80, 5}, {80, 200, 120}, {300, 400, 100},
	}
	for _, one := range cases {
		got := record.longestGap(one.from*int64(time.Millisecond), one.to*int64(time.Millisecond))
		if got != one.want*int64(time.Millisecond) {
			t.Errorf("%d to %d: %d ns, expected %d ms", one.from, one.to, got, one.want)
		}
	}
}

func TestNodesThatChange(t *testing.T) {
	n := newNodes("a,b")
	if n.at(0) != "a" || n.at(3) != "b" {
		t.Errorf("at first: %v", n.all())
	}
	n.set("c")
	if n.at(0) != "c" || n.at(3) != "c" {
		t.Errorf("afterwards: %v", n.all())
	}
}
