// Package peer holds what the peer programs in Go share: arguments, clocks, memory, and figures
// printed on the same lines as those of the benchmark programs in C (bench/bench.h).
package peer

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strconv"
	"syscall"
	"time"
)

// Begin is the time that Wall counts from.
var begin = time.Now()

// Wall is the monotonic time in ns.
func Wall() int64 { return int64(time.Since(begin)) }

// CPU is the CPU time of this process in ns.
func CPU() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// Status is a figure of /proc/self/status in bytes: "VmHWM", "VmRSS", "VmPTE"; 0 if there is none.
func Status(key string) float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range bytes.Split(text, []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) >= 2 && string(fields[0]) == key+":" {
			v, _ := strconv.ParseFloat(string(fields[1]), 64)
			return v * 1024
		}
	}
	return 0
}

// Argument is the i-th argument as a number above 0, or the standard. It ends the program if the
// argument is something else.
func Argument(i, standard int) int {
	if i >= len(os.Args) {
		return standard
	}
	v, err := strconv.Atoi(os.Args[i])
	if err != nil || v < 1 {
		fmt.Fprintf(os.Stderr, "%s: expected a number above 0, not %q\n", os.Args[0], os.Args[i])
		os.Exit(2)
	}
	return v
}

// Figure prints one figure.
func Figure(v float64, unit, name string, args ...any) {
	decimals := 3
	switch {
	case v >= 1000 || v == 0:
		decimals = 0
	case v >= 100:
		decimals = 1
	case v >= 10:
		decimals = 2
	}
	fmt.Printf("%-42s  %9.*f %s\n", fmt.Sprintf(name, args...), decimals, v, unit)
}

// Median of v, which it sorts; 0 without values.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sort.Float64s(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Percentiles prints how many times in ns there are, and p50, p90, p99, p99.9 and the largest in us.
func Percentiles(ns []int64, name string) {
	sort.Slice(ns, func(i, k int) bool { return ns[i] < ns[k] })
	at := func(q float64) float64 {
		i := int(q * float64(len(ns)))
		if i >= len(ns) {
			i = len(ns) - 1
		}
		return float64(ns[i]) / 1e3
	}
	Figure(float64(len(ns)), "times", "%s", name)
	Figure(at(0.5), "us", "%s p50", name)
	Figure(at(0.9), "us", "%s p90", name)
	Figure(at(0.99), "us", "%s p99", name)
	Figure(at(0.999), "us", "%s p99.9", name)
	Figure(at(1), "us", "%s max", name)
}

// Random is the xorshift64 generator of bench.h.
type Random uint64

// Seed is its usual state.
const Seed Random = 88172645463325252

// Next is the next number.
func (r *Random) Next() uint64 {
	*r ^= *r << 13
	*r ^= *r >> 7
	*r ^= *r << 17
	return uint64(*r)
}
