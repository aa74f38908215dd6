package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestBucketsHoldWhatTheySay(t *testing.T) {
	for _, value := range []int64{0, 1, 127, 128, 129, 255, 256, 1000, 65_535, 65_536, 1_234_567_890, 1 << 60} {
		bucket := bucketOf(value)
		high, below := highestOf(bucket), int64(-1)
		if bucket > 0 {
			below = highestOf(bucket - 1)
		}
		if value > high || value <= below {
			t.Errorf("%d is in bucket %d, which holds %d to %d", value, bucket, below+1, high)
		}
		if float64(high-value) > float64(value)/100 {
			t.Errorf("bucket %d of %d ends at %d", bucket, value, high)
		}
	}
	var times histogram
	for value := range int64(1000) {
		times.add(value * 1_000_000)
	}
	if p99 := times.milliseconds(.99); math.Abs(p99-990) > 10 {
		t.Errorf("p99 of 0..999 ms is %f", p99)
	}
	if over := times.over(500_000_000); over < 490 || over > 500 {
		t.Errorf("%d are over 500 of 0..999", over)
	}
}

func TestShufflingReachesEveryKeyOnce(t *testing.T) {
	for _, keys := range []int{2, 3, 1000, 1024, 99_999} {
		order, seen := newChoice("shuffled", keys, 0, 7), map[int]bool{}
		for range keys {
			seen[order.next()] = true
		}
		if len(seen) != keys {
			t.Errorf("%d of %d keys are reached", len(seen), keys)
		}
	}
}

func TestZipfianFollowsItsLaw(t *testing.T) {
	const keys, draws = 10_000, 1_000_000
	z := newZipfian(rand.New(rand.NewPCG(1, 1)), keys, .99)
	counts := map[int]int{}
	for range draws {
		counts[z.next()]++
	}
	for rank := range 2 {
		expected := draws * math.Pow(float64(rank+1), -.99) / z.zeta
		if found := float64(counts[z.places.of(rank)]); math.Abs(found-expected) > expected/20 {
			t.Errorf("rank %d was drawn %.0f times, not %.0f", rank, found, expected)
		}
	}
	// The upper tenth of the ranks: their share of all draws.
	share, found := 0.0, 0
	for rank := range keys / 10 {
		share += math.Pow(float64(rank+1), -.99) / z.zeta
		found += counts[z.places.of(rank)]
	}
	if math.Abs(float64(found)/draws-share) > .01 {
		t.Errorf("the upper tenth has a share of %.3f, not %.3f", float64(found)/draws, share)
	}
}

func TestRepliesAreCutWhereTheyEnd(t *testing.T) {
	for text, length := range map[string]int{
		"+OK\r\n": 5, "$3\r\nabc\r\n+": 9, "$-1\r\n": 5, "$3\r\nabc\r": 0, "+O": 0, "-ERR x\r\n": 8,
	} {
		if found := replyLength([]byte(text)); found != length {
			t.Errorf("%q is %d long, not %d", text, found, length)
		}
	}
	if digits := string(appendDigits(nil, 1234567)); "key:"+digits != keyName(1234567) {
		t.Errorf("%q", digits)
	}
}

func TestWholeRepliesEndWhereTheyEnd(t *testing.T) {
	for _, reply := range []string{"+OK\r\n", "$3\r\na\nb\r\n", "*-1\r\n", "*0\r\n", "*2\r\n*1\r\n:1\r\n$2\r\nab\r\n"} {
		if length := wholeReply([]byte(reply + "+next\r\n")); length != len(reply) {
			t.Errorf("%q has %d bytes, not %d", reply, len(reply), length)
		}
		for cut := range len(reply) {
			if length := wholeReply([]byte(reply[:cut])); length != 0 {
				t.Errorf("%q was taken for whole", reply[:cut])
			}
		}
	}
}
