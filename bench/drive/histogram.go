package main

import "math/bits"

// histogram counts latencies in buckets whose width is at most 1/128 of what they hold, as HDR histograms do, so that a
// run of any length takes the same memory and its quantiles are off by less than a percent. Times are in nanoseconds.
type histogram struct {
	counts  [histogramBuckets]uint64
	total   uint64
	longest int64
}

const (
	histogramBits    = 7 // of each power of two: 128 buckets
	histogramBuckets = (64 - histogramBits) << histogramBits
)

// bucketOf is the bucket of a time: the position of its highest bit and the seven bits below it.
func bucketOf(nanoseconds int64) int {
	value := uint64(max(nanoseconds, 0))
	if value < 1<<histogramBits {
		return int(value)
	}
	shift := bits.Len64(value) - histogramBits - 1
	return (shift+1)<<histogramBits + int(value>>shift) - 1<<histogramBits
}

// highestOf is the largest time that falls into a bucket.
func highestOf(bucket int) int64 {
	if bucket < 1<<histogramBits {
		return int64(bucket)
	}
	shift := bucket>>histogramBits - 1
	low := int64(bucket&(1<<histogramBits-1)) + 1<<histogramBits
	return (low+1)<<shift - 1
}

func (h *histogram) add(nanoseconds int64) {
	h.counts[bucketOf(nanoseconds)]++
	h.total++
	h.longest = max(h.longest, nanoseconds)
}

// milliseconds returns the time that a share q (0..1) of all does not exceed.
func (h *histogram) milliseconds(q float64) float64 {
	if h.total == 0 {
		return 0
	}
	wanted, seen := uint64(q*float64(h.total)), uint64(0)
	for bucket, count := range h.counts {
		seen += count
		if seen > wanted {
			return float64(min(highestOf(bucket), h.longest)) / 1e6
		}
	}
	return float64(h.longest) / 1e6
}

// over counts the times longer than a limit, up to a bucket's width.
func (h *histogram) over(nanoseconds int64) uint64 {
	sum := uint64(0)
	for _, count := range h.counts[bucketOf(nanoseconds)+1:] {
		sum += count
	}
	return sum
}
