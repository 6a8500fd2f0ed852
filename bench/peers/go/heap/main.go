// heap: the peers in Go of bench-bintree, bench-gcbench, bench-mark and bench-alloc.
//
// usage: heap bintree [DEPTH [WORKERS]] | gcbench [WORKERS [STRETCH [LONG]]] |
//
//	mark [NODES [ROUNDS]] | alloc [GOROUTINES [COUNT]]
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"hedge-peers/peer"
)

// measured prints what one run of fn took.
func measured(name string, fn func()) {
	wall, cpu := peer.Wall(), peer.CPU()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	peer.Figure(float64(peer.Wall()-wall)/1e9, "s", "%s, elapsed", name)
	peer.Figure(float64(peer.CPU()-cpu)/1e9, "s", "%s, CPU", name)
	peer.Figure(peer.Status("VmHWM")/(1<<20), "MiB", "%s, peak resident", name)
	peer.Figure(float64(after.NumGC-before.NumGC), "cycles", "collections")
}

// ---- binary trees ----

type tree struct{ left, right *tree }

func makeTree(depth int) *tree {
	t := new(tree)
	if depth > 0 {
		t.left = makeTree(depth - 1)
		t.right = makeTree(depth - 1)
	}
	return t
}

func (t *tree) count() int {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.count() + t.right.count()
}

func bintree(depth, workers int) {
	nodes := makeTree(depth + 1).count()
	lives := makeTree(depth)
	for d := 4; d <= depth; d += 4 {
		counted := make(chan int)
		for w := 0; w < workers; w++ {
			go func(trees int) {
				sum := 0
				for i := 0; i < trees; i++ {
					sum += makeTree(d).count()
				}
				counted <- sum
			}((1 << (depth - d + 4)) / workers)
		}
		for w := 0; w < workers; w++ {
			nodes += <-counted
		}
	}
	nodes += lives.count()
	fmt.Printf("depth %d, %d workers, %d nodes\n", depth, workers, nodes)
}

// ---- GCBench ----

type node struct {
	left, right *node
	i, j        int32
}

func treeNodes(depth int) int { return 2<<depth - 1 }

func (n *node) populate(depth int) {
	if depth <= 0 {
		return
	}
	n.left, n.right = new(node), new(node)
	n.left.populate(depth - 1)
	n.right.populate(depth - 1)
}

func makeNode(depth int) *node {
	if depth <= 0 {
		return new(node)
	}
	left := makeNode(depth - 1)
	right := makeNode(depth - 1)
	return &node{left: left, right: right}
}

func buildTrees(workers, stretch, long int) {
	for d := 4; d <= long; d += 2 {
		trees := 2 * treeNodes(stretch) / treeNodes(d) / workers
		if trees < 1 {
			trees = 1
		}
		for i := 0; i < trees; i++ {
			n := new(node)
			n.populate(d)
		}
		for i := 0; i < trees; i++ {
			makeNode(d)
		}
	}
}

func gcbench(workers, stretch, long int) {
	fmt.Printf("%d workers, stretch %d, long %d\n", workers, stretch, long)
	makeNode(stretch)
	lives := new(node)
	lives.populate(long)
	array := make([]float64, 4000000)
	for i := 1; i < len(array); i++ {
		array[i] = 1 / float64(i)
	}
	var done sync.WaitGroup
	for w := 0; w < workers; w++ {
		done.Add(1)
		go func() {
			defer done.Done()
			buildTrees(workers, stretch, long)
		}()
	}
	done.Wait()
	if array[1000] != 1.0/1000 || lives.left == nil {
		fmt.Fprintln(os.Stderr, "what lived has changed")
		os.Exit(1)
	}
}

// ---- marking ----

type marked struct {
	left, right, cross *marked
	payload            [5]uint64
}

func buildGraph(n int) *marked {
	random := peer.Seed
	table := make([]*marked, n)
	for i := range table {
		table[i] = new(marked)
	}
	for i := n - 1; i > 0; i-- {
		k := int(random.Next() % uint64(i+1))
		table[i], table[k] = table[k], table[i]
	}
	for i, m := range table {
		if 2*i+1 < n {
			m.left = table[2*i+1]
		}
		if 2*i+2 < n {
			m.right = table[2*i+2]
		}
		m.cross = table[random.Next()%uint64(n)]
	}
	return table[0]
}

func mark(n, rounds int) {
	debug.SetGCPercent(-1)
	root := buildGraph(n)
	runtime.GC()
	var wall, cpu []float64
	for i := 0; i < rounds; i++ {
		w, c := peer.Wall(), peer.CPU()
		runtime.GC()
		wall = append(wall, float64(peer.Wall()-w))
		cpu = append(cpu, float64(peer.CPU()-c))
	}
	runtime.KeepAlive(root)
	bytes := float64(n) * 64
	fmt.Printf("%d nodes, %d rounds\n", n, rounds)
	peer.Figure(bytes/peer.Median(cpu), "GB/s", "mark typed, per core-second")
	peer.Figure(bytes/peer.Median(wall), "GB/s", "mark typed, elapsed rate")
	peer.Figure(peer.Median(wall)/1e6, "ms", "mark typed, elapsed")
	peer.Figure(peer.Median(cpu)/1e6, "ms", "mark typed, CPU of all")
	peer.Figure(peer.Status("VmHWM")/(1<<20), "MiB", "mark typed, peak resident")
}

func main() {
	kind := ""
	if len(os.Args) > 1 {
		kind = os.Args[1]
	}
	fmt.Printf("%s, GOMAXPROCS %d\n", runtime.Version(), runtime.GOMAXPROCS(0))
	switch kind {
	case "bintree":
		measured("binary trees", func() { bintree(peer.Argument(2, 18), peer.Argument(3, 2)) })
	case "gcbench":
		measured("gcbench", func() {
			gcbench(peer.Argument(2, 2), peer.Argument(3, 20), peer.Argument(4, 18))
		})
	case "mark":
		mark(peer.Argument(2, 8388608), peer.Argument(3, 5))
	case "alloc":
		allocAll(peer.Argument(2, 1), peer.Argument(3, 20000000))
	default:
		fmt.Fprintln(os.Stderr, "usage: heap bintree|gcbench|mark|alloc [NUMBER]...")
		os.Exit(2)
	}
}
