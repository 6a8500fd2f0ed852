// record.go: the program whose traces are recorded in go1.19.log: it keeps a table of records
// alive, replaces one in four, and allocates in bursts, so that marking meets an uneven load.
//
//	go build -o record record.go
//	GOMAXPROCS=2 GODEBUG=gctrace=1,gcpacertrace=1 ./record 2>go1.19.log
package main

import (
	"runtime"
	"sync"
	"time"
)

type record struct {
	next *record
	body [112]byte
}

func work(seed uint64, table []*record, until time.Time) {
	for round := 0; time.Now().Before(until); round++ {
		for i := 0; i < 4000; i++ {
			seed = seed*6364136223846793005 + 1442695040888963407
			r := &record{}
			if seed>>62 == 0 {
				k := seed >> 33 % uint64(len(table))
				r.next = &record{}
				table[k] = r
			}
		}
		if round/40%2 == 1 {
			time.Sleep(time.Millisecond)
		}
	}
}

func main() {
	until := time.Now().Add(1500 * time.Millisecond)
	var all sync.WaitGroup
	for i := uint64(0); i < 4; i++ {
		all.Add(1)
		go func(seed uint64) {
			defer all.Done()
			work(seed, make([]*record, 20000), until)
		}(i)
	}
	all.Wait()
	runtime.GC()
}
