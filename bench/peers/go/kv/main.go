// kv: the peer in Go of `hedge-sim kv`: the same store, requests, frames and arrivals.
//
// Each connection is a client and a server goroutine with two unbuffered channels between them,
// both under frames of 16 pointers. A client's arrivals are a Poisson process of its own; latency
// counts from the intended start. GOGC, GOMAXPROCS and GODEBUG=gctrace=1 come from the environment;
// the lines MEASURE-BEGIN and MEASURE-END on standard error mark the measured part of a gctrace.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"hedge-peers/peer"
)

const (
	frameRefs = 16
	drain     = int64(10e9) // after the end, what is late by more is given up
)

var (
	conns    = flag.Int("conns", 10000, "connections: each is two goroutines and two channels")
	rate     = flag.Float64("rate", 100000, "arrivals per second, all connections together")
	readPct  = flag.Int("read-percent", 95, "reads among the requests")
	keys     = flag.Int("keys", 200000, "entries in the store")
	value    = flag.Int("value-bytes", 1024, "bytes of a value")
	garbage  = flag.Int("garbage-nodes", 12, "48-byte nodes that each request allocates")
	depth    = flag.Int("depth", 8, "stack frames of 16 pointers under each parked goroutine")
	burst    = flag.Float64("burst", 0, "put arrivals off to multiples of this many microseconds")
	seed     = flag.Uint64("seed", 42, "of the arrivals and keys")
	duration = flag.Float64("duration", 30, "seconds measured")
	warmup   = flag.Float64("warmup", 5, "seconds of load before that")
)

// splitmix is the generator of `hedge-sim`.
type splitmix uint64

func (r *splitmix) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// exponential has mean 1.
func (r *splitmix) exponential() float64 {
	return -math.Log((float64(r.next()>>11) + 1) / (1 << 53))
}

// load is what all goroutines share.
type load struct {
	store             *store
	start, begin, end int64 // arrivals start; measuring begins and ends
	latency           [measureShards]histogram
	done              [measureShards]struct {
		n uint64
		_ [120]byte
	}
	givenUp, wrong, sink uint64
}

type client struct {
	load      *load
	id        int
	requests  chan<- *request
	responses <-chan *response
	random    splitmix
	at, mean  float64 // ns after the start
	seq, sum  uint64
}

// intended is when the current arrival is to start.
func (c *client) intended() int64 {
	at := c.at
	if b := *burst * 1e3; b > 0 {
		at = math.Ceil(at/b) * b
	}
	return c.load.start + int64(at)
}

func (c *client) nextArrival() { c.at += c.random.exponential() * c.mean }

// exchange is one request, from making it to its end, which it returns.
func (c *client) exchange() int64 {
	c.seq++
	key := c.random.next() % uint64(*keys)
	writeBytes := 0
	if int(c.random.next()%100) >= *readPct {
		writeBytes = *value
	}
	r := newRequest(key, c.seq, *garbage, writeBytes)
	c.requests <- r
	resp := <-c.responses
	one, ok := c.load.store.check(r, resp)
	if !ok {
		atomic.AddUint64(&c.load.wrong, 1)
	}
	c.sum += uint64(one)
	return peer.Wall()
}

// giveUp counts all arrivals from the current one to the end as late as they are now.
func (c *client) giveUp(now int64) {
	for t := c.intended(); t < c.load.end; t = c.intended() {
		if t >= c.load.begin {
			c.load.latency[c.id%measureShards].add(now - t)
			atomic.AddUint64(&c.load.givenUp, 1)
		}
		c.nextArrival()
	}
}

func (c *client) run() {
	l := c.load
	for c.nextArrival(); ; c.nextArrival() {
		intended := c.intended()
		if intended >= l.end {
			break
		}
		now := peer.Wall()
		if now < intended {
			time.Sleep(time.Duration(intended - now))
			now = peer.Wall()
		}
		if now > l.end+drain {
			c.giveUp(now)
			break
		}
		end := c.exchange()
		if end >= l.begin && end < l.end {
			atomic.AddUint64(&l.done[c.id%measureShards].n, 1)
		}
		if intended >= l.begin {
			l.latency[c.id%measureShards].add(end - intended)
		}
	}
	atomic.AddUint64(&l.sink, c.sum)
}

// underFrames calls fn under frames of pointers that stay in use after it.
//
//go:noinline
func underFrames(left int, fn func(), up *kvNode) *kvNode {
	if left == 0 {
		fn()
		return up
	}
	var frame [frameRefs]*kvNode
	for i := range frame {
		frame[i] = up
	}
	r := underFrames(left-1, fn, frame[left%frameRefs])
	frame[(left+1)%frameRefs] = r
	return pick(&frame, frame[left%frameRefs].a)
}

//go:noinline
func pick(frame *[frameRefs]*kvNode, i uint64) *kvNode { return frame[i%frameRefs] }

// connect starts the two goroutines of connection id.
func connect(l *load, id int, clients *sync.WaitGroup) {
	requests, responses := make(chan *request), make(chan *response)
	go underFrames(*depth, func() {
		for r := range requests {
			responses <- l.store.serve(r)
		}
	}, &kvNode{a: uint64(id)})
	clients.Add(1)
	go func() {
		c := &client{load: l, id: id, requests: requests, responses: responses,
			random: splitmix(uint64(id)*0x1234567 + *seed),
			mean:   float64(*conns) / *rate * 1e9}
		underFrames(*depth, c.run, &kvNode{a: uint64(id)})
		close(requests)
		clients.Done()
	}()
}

func (l *load) report(ran float64, cpu int64, before, after *runtime.MemStats) {
	var all histogram
	var done uint64
	for i := range l.latency {
		all.merge(&l.latency[i])
		done += l.done[i].n
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}} {
		peer.Figure(float64(all.quantile(q.at))/1e6, "ms", "latency %s", q.name)
	}
	peer.Figure(float64(all.max)/1e6, "ms", "latency max")
	peer.Figure(ran, "s", "measured")
	peer.Figure(float64(done)/ran, "op/s", "achieved rate")
	peer.Figure(float64(l.givenUp), "op", "given up")
	peer.Figure(float64(after.NumGC-before.NumGC), "cycles", "collections")
	peer.Figure(float64(cpu)/1e9/ran, "CPUs", "CPU used")
	peer.Figure(float64(after.TotalAlloc-before.TotalAlloc)/float64(done), "B", "allocated per op")
	peer.Figure(peer.Status("VmHWM")/(1<<20), "MiB", "peak resident")
}

func main() {
	flag.Parse()
	if flag.NArg() > 0 || *conns < 1 || *rate <= 0 || *keys < 1 || *value < 8 {
		fmt.Fprintln(os.Stderr, "kv: expected options with values above 0 only; see -help")
		os.Exit(2)
	}
	fmt.Printf("kv, %s, GOMAXPROCS %d: %d connections, %g op/s, %d keys of %d bytes\n",
		runtime.Version(), runtime.GOMAXPROCS(0), *conns, *rate, *keys, *value)
	l := &load{store: newStore(uint64(*keys), *value)}
	runtime.GC()
	l.start = peer.Wall() + 500e6 + int64(*conns)*10000
	l.begin = l.start + int64(*warmup*1e9)
	l.end = l.begin + int64(*duration*1e9)
	var clients sync.WaitGroup
	for id := 0; id < *conns; id++ {
		connect(l, id, &clients)
	}
	time.Sleep(time.Duration(l.begin - peer.Wall()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := peer.CPU()
	fmt.Fprintln(os.Stderr, "MEASURE-BEGIN")
	time.Sleep(time.Duration(l.end - peer.Wall()))
	fmt.Fprintln(os.Stderr, "MEASURE-END")
	cpu = peer.CPU() - cpu
	runtime.ReadMemStats(&after)
	clients.Wait()
	if l.wrong > 0 {
		fmt.Fprintf(os.Stderr, "kv: %d responses were not the answer\n", l.wrong)
		os.Exit(1)
	}
	l.report(*duration, cpu, &before, &after)
}
