package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"hedge-peers/peer"
)

const (
	ring      = 1024
	warmUp    = 100000
	offBudget = 256 << 20
)

// Objects by layout and size; of a typed one the first two words are pointers.
type (
	leaf16   [2]uint64
	leaf32   [4]uint64
	leaf48   [6]uint64
	leaf64   [8]uint64
	leaf128  [16]uint64
	leaf1024 [128]uint64

	refs16   [2]*byte
	refs32   [4]*byte
	refs48   [6]*byte
	refs64   [8]*byte
	refs128  [16]*byte
	refs1024 [128]*byte

	pair    struct{ a, b *byte }
	typed16 struct{ pair }
	typed32 struct {
		pair
		more [2]uint64
	}
	typed48 struct {
		pair
		more [4]uint64
	}
	typed64 struct {
		pair
		more [6]uint64
	}
	typed128 struct {
		pair
		more [14]uint64
	}
	typed1024 struct {
		pair
		more [126]uint64
	}
)

// allocate puts n new objects into the ring in turn and clears the first word of each.
//
//go:noinline
func allocate[T any](r *[ring]*T, n int) {
	for i := 0; i < n; i++ {
		p := new(T)
		*(*uintptr)(unsafe.Pointer(p)) = 0
		r[i%ring] = p
	}
}

// both allocates a warm-up, waits for the others, and allocates n objects. It returns how long they
// took, in ns.
func both[T any](n int, ready, start *sync.WaitGroup) int64 {
	r := new([ring]*T)
	warm := warmUp
	if n < warm {
		warm = n
	}
	allocate(r, warm)
	ready.Done()
	start.Wait()
	t := peer.Wall()
	allocate(r, n)
	t = peer.Wall() - t
	runtime.KeepAlive(r)
	return t
}

var cells = []struct {
	layout string
	size   int
	fn     func(n int, ready, start *sync.WaitGroup) int64
}{
	{"leaf", 16, both[leaf16]}, {"leaf", 32, both[leaf32]}, {"leaf", 48, both[leaf48]},
	{"leaf", 64, both[leaf64]}, {"leaf", 128, both[leaf128]}, {"leaf", 1024, both[leaf1024]},
	{"refs", 16, both[refs16]}, {"refs", 32, both[refs32]}, {"refs", 48, both[refs48]},
	{"refs", 64, both[refs64]}, {"refs", 128, both[refs128]}, {"refs", 1024, both[refs1024]},
	{"typed", 16, both[typed16]}, {"typed", 32, both[typed32]}, {"typed", 48, both[typed48]},
	{"typed", 64, both[typed64]}, {"typed", 128, both[typed128]}, {"typed", 1024, both[typed1024]},
}

func atMost(n, room int) int {
	if n > room {
		return room
	}
	return n
}

// measure runs one cell on as many goroutines: ns per allocation, elapsed and CPU, and collections.
func measure(cell, goroutines, n int) (wall, cpu, collections float64) {
	var ready, start, done sync.WaitGroup
	ready.Add(goroutines)
	start.Add(1)
	done.Add(goroutines)
	times := make([]int64, goroutines)
	for g := 0; g < goroutines; g++ {
		go func(g int) {
			defer done.Done()
			times[g] = cells[cell].fn(n, &ready, &start)
		}(g)
	}
	ready.Wait()
	var before, after debug.GCStats
	debug.ReadGCStats(&before)
	c := peer.CPU()
	start.Done()
	done.Wait()
	cpu = float64(peer.CPU()-c) / float64(n*goroutines)
	debug.ReadGCStats(&after)
	for _, t := range times {
		wall += float64(t) / float64(n*goroutines)
	}
	return wall, cpu, float64(after.NumGC - before.NumGC)
}

func allocAll(goroutines, count int) {
	ballast := make([]byte, 64<<20)
	for i := range ballast {
		ballast[i] = 1
	}
	fmt.Printf("%d goroutines, %d allocations\n", goroutines, count)
	for i, c := range cells {
		wall, cpu, collections := measure(i, goroutines, atMost(count, 2<<30/c.size))
		name := fmt.Sprintf("allocate %s %d B, steady", c.layout, c.size)
		peer.Figure(wall, "ns", "%s", name)
		peer.Figure(cpu, "ns", "%s, CPU", name)
		peer.Figure(collections, "cycles", "%s, collections", name)
	}
	for pass := 0; pass < 2; pass++ { // the first touches the memory
		for i, c := range cells {
			debug.SetGCPercent(-1)
			runtime.GC()
			wall, _, _ := measure(i, goroutines, atMost(count, offBudget/goroutines/c.size))
			if pass == 1 {
				peer.Figure(wall, "ns", "allocate %s %d B, gc off", c.layout, c.size)
			}
		}
	}
	runtime.KeepAlive(ballast)
}
