// tasks: the peer in Go of bench-tasks. GOMAXPROCS in the environment says how many procs.
//
// usage: tasks yield [YIELDS [ROUNDS]] | spawn [COUNT [ROUNDS]] | roundtrip [TRIPS [ROUNDS]] |
//
//	parked [GOROUTINES] | sleep [GOROUTINES [SLEEPS]]
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"hedge-peers/peer"
)

const batch = 256

// rounds prints the median of n runs of fn, each a time per operation in ns.
func rounds(n int, fn func() float64, name string, args ...any) {
	var v []float64
	for i := 0; i < n; i++ {
		v = append(v, fn())
	}
	peer.Figure(peer.Median(v), "ns", name, args...)
}

func procs() string {
	if n := runtime.GOMAXPROCS(0); n != 1 {
		return fmt.Sprintf("%d procs", n)
	}
	return "1 proc"
}

func yield(n int) float64 {
	var done sync.WaitGroup
	t := peer.Wall()
	for i := 0; i < 2; i++ {
		done.Add(1)
		go func() {
			for k := 0; k < n/2; k++ {
				runtime.Gosched()
			}
			done.Done()
		}()
	}
	done.Wait()
	return float64(peer.Wall()-t) / float64(n/2*2)
}

func spawn(n int) float64 {
	var done sync.WaitGroup
	t := peer.Wall()
	for i := 0; i < n/batch; i++ {
		done.Add(batch)
		for k := 0; k < batch; k++ {
			go done.Done()
		}
		done.Wait()
	}
	return float64(peer.Wall()-t) / float64(n/batch*batch)
}

type spawned struct {
	done *sync.WaitGroup
	more [3]uint64
}

func spawnCopy(n int) float64 {
	var done sync.WaitGroup
	args := spawned{&done, [3]uint64{1, 2, 3}}
	t := peer.Wall()
	for i := 0; i < n/batch; i++ {
		done.Add(batch)
		for k := 0; k < batch; k++ {
			go func(s spawned) { s.done.Done() }(args)
		}
		done.Wait()
	}
	return float64(peer.Wall()-t) / float64(n/batch*batch)
}

func roundtrip(n int) float64 {
	there, back := make(chan int64), make(chan int64)
	go func() {
		for v := range there {
			back <- v
		}
	}()
	t := peer.Wall()
	for i := int64(0); i < int64(n); i++ {
		there <- i
		if <-back != i {
			panic("another number came back")
		}
	}
	t = peer.Wall() - t
	close(there)
	return float64(t) / float64(n)
}

func parked(n int) {
	runtime.GC()
	rss, tables := peer.Status("VmRSS"), peer.Status("VmPTE")
	gate := make(chan struct{})
	var up, down sync.WaitGroup
	up.Add(n)
	down.Add(n)
	t := peer.Wall()
	for i := 0; i < n; i++ {
		go func() {
			up.Done()
			<-gate
			down.Done()
		}()
	}
	started := peer.Wall() - t
	up.Wait()
	all := peer.Wall() - t
	time.Sleep(200 * time.Millisecond)
	rss, tables = peer.Status("VmRSS")-rss, peer.Status("VmPTE")-tables
	t = peer.Wall()
	close(gate)
	down.Wait()
	ended := peer.Wall() - t
	peer.Figure(rss/float64(n), "B", "parked %d tasks, resident per task", n)
	peer.Figure(tables/float64(n), "B", "parked %d tasks, page tables per task", n)
	peer.Figure(float64(started)/1e9, "s", "parked %d tasks, all started", n)
	peer.Figure(float64(all)/1e9, "s", "parked %d tasks, all parked", n)
	peer.Figure(float64(ended)/1e9, "s", "parked %d tasks, all ended", n)
}

func sleep(goroutines, sleeps int) {
	late := make([]int64, goroutines*sleeps)
	var done sync.WaitGroup
	done.Add(goroutines)
	for g := 0; g < goroutines; g++ {
		go func(g int) {
			random := peer.Seed + peer.Random(uint64(g)*0x9e3779b97f4a7c15)
			for i := 0; i < sleeps; i++ {
				d := 1000000 + int64(random.Next()%9000000)
				until := peer.Wall() + d
				time.Sleep(time.Duration(d))
				late[g*sleeps+i] = peer.Wall() - until
			}
			done.Done()
		}(g)
	}
	done.Wait()
	peer.Percentiles(late, "sleep, too late")
}

func main() {
	kind := ""
	if len(os.Args) > 1 {
		kind = os.Args[1]
	}
	fmt.Printf("%s, GOMAXPROCS %d\n", runtime.Version(), runtime.GOMAXPROCS(0))
	switch kind {
	case "yield":
		n := peer.Argument(2, 20000000)
		rounds(peer.Argument(3, 5), func() float64 { return yield(n) }, "yield 2 tasks, %s", procs())
	case "spawn":
		n, r := peer.Argument(2, 2000000), peer.Argument(3, 5)
		rounds(r, func() float64 { return spawn(n) }, "spawn and exit, %s", procs())
		rounds(r, func() float64 { return spawnCopy(n) }, "spawn and exit, %s, 32 bytes copied", procs())
	case "roundtrip":
		n := peer.Argument(2, 2000000)
		rounds(peer.Argument(3, 5), func() float64 { return roundtrip(n) },
			"unbuffered round trip, %s", procs())
	case "parked":
		parked(peer.Argument(2, 100000))
	case "sleep":
		sleep(peer.Argument(2, 1000), peer.Argument(3, 200))
	default:
		fmt.Fprintln(os.Stderr, "usage: tasks yield|spawn|roundtrip|parked|sleep [NUMBER]...")
		os.Exit(2)
	}
}
