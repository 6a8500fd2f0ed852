package main

import (
	"math/bits"
	"sync/atomic"
)

const (
	subBits       = 7
	buckets       = (64 - subBits) << subBits
	measureShards = 16
)

// histogram is log-linear, 128 buckets per power of two; connections add to it at once.
type histogram struct {
	count [buckets]uint64
	max   int64
}

func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	e := bits.Len64(v) - 1 - subBits
	return (e+1)<<subBits + int(v>>e&(1<<subBits-1))
}

// bucketHigh is the largest value of a bucket.
func bucketHigh(i int) int64 {
	if i < 1<<subBits {
		return int64(i)
	}
	e := i>>subBits - 1
	return (int64(i&(1<<subBits-1))+1<<subBits+1)<<e - 1
}

func (h *histogram) add(v int64) {
	if v < 0 {
		v = 0
	}
	atomic.AddUint64(&h.count[bucketOf(uint64(v))], 1)
	for {
		old := atomic.LoadInt64(&h.max)
		if v <= old || atomic.CompareAndSwapInt64(&h.max, old, v) {
			return
		}
	}
}

func (h *histogram) merge(from *histogram) {
	for i, c := range from.count {
		h.count[i] += c
	}
	if from.max > h.max {
		h.max = from.max
	}
}

func (h *histogram) total() (n uint64) {
	for _, c := range h.count {
		n += c
	}
	return n
}

// quantile is the smallest bucket's high value that at least the share q of all reach.
func (h *histogram) quantile(q float64) int64 {
	need, seen := q*float64(h.total()), 0.0
	for i, c := range h.count {
		seen += float64(c)
		if c > 0 && seen >= need {
			if high := bucketHigh(i); high < h.max {
				return high
			}
			break
		}
	}
	return h.max
}
