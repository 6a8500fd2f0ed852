package main

import "sync"

const (
	shardCount = 256
	entryNodes = 4
	keyBytes   = 32
)

// kvNode has 48 bytes and 3 pointers.
type kvNode struct {
	next, other *kvNode
	own         *entry
	a, b, c     uint64
}

type entry struct {
	key, version uint64
	value        []byte
	next         *entry
	meta         *kvNode
}

type request struct {
	write, key, seq uint64
	keyBytes, value []byte
	chain           *kvNode
}

type response struct {
	seq, version uint64
	wire         []byte
	request      *request
}

type shard struct {
	sync.Mutex
	buckets []*entry
	_       [96]byte
}

type store struct {
	keys, perShard uint64
	valueBytes     int
	shards         [shardCount]shard
}

func hash(k uint64) uint64 { // the finaliser of MurmurHash3
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// place is the shard of a key and the index of its bucket there.
func (s *store) place(key uint64) (*shard, uint64) {
	h := hash(key)
	return &s.shards[h%shardCount], (h >> 8) % s.perShard
}

// find is called under the shard's lock. Every key below s.keys is there.
func (sh *shard) find(bucket, key uint64) *entry {
	e := sh.buckets[bucket]
	for e.key != key {
		e = e.next
	}
	return e
}

func newEntry(key uint64, valueBytes int) *entry {
	e := &entry{key: key, value: make([]byte, valueBytes)}
	for i := range e.value {
		e.value[i] = byte(key + uint64(i))
	}
	for i := 0; i < entryNodes; i++ {
		e.meta = &kvNode{next: e.meta, own: e, a: key}
	}
	return e
}

func newStore(keys uint64, valueBytes int) *store {
	s := &store{keys: keys, perShard: keys/shardCount + 1, valueBytes: valueBytes}
	for i := range s.shards {
		s.shards[i].buckets = make([]*entry, s.perShard)
	}
	for key := uint64(0); key < keys; key++ {
		sh, b := s.place(key)
		e := newEntry(key, valueBytes)
		e.next = sh.buckets[b]
		sh.buckets[b] = e
	}
	return s
}

func newRequest(key, seq uint64, garbage, writeBytes int) *request {
	r := &request{key: key, seq: seq, keyBytes: make([]byte, keyBytes)}
	for i := 0; i < 8; i++ {
		r.keyBytes[i] = byte(key >> (8 * i))
	}
	for i := 0; i < garbage; i++ {
		r.chain = &kvNode{next: r.chain, a: seq}
	}
	if writeBytes > 0 {
		r.write = 1
		r.value = make([]byte, writeBytes)
		for i := 0; i < writeBytes; i += 8 {
			r.value[i] = byte(seq)
		}
	}
	return r
}

// serve is what the server does with a request. It is not inlined: the response is on the heap.
//
//go:noinline
func (s *store) serve(r *request) *response {
	resp := &response{seq: r.seq, request: r}
	if r.write != 0 {
		s.serveWrite(r, resp)
	} else {
		s.serveRead(r, resp)
	}
	return resp
}

func (s *store) serveRead(r *request, resp *response) {
	sh, b := s.place(r.key)
	sh.Lock()
	e := sh.find(b, r.key)
	value := e.value
	resp.version = e.version
	sh.Unlock()
	copied := make([]byte, len(value)) // out of the store
	copy(copied, value)
	wire := make([]byte, 0, len(copied)+40) // encoded
	wire = append(wire, r.keyBytes...)
	resp.wire = append(wire, copied...)
}

func (s *store) serveWrite(r *request, resp *response) {
	sh, b := s.place(r.key)
	value := make([]byte, len(r.value))
	copy(value, r.value)
	n := &kvNode{a: r.key}
	sh.Lock()
	e := sh.find(b, r.key)
	e.value = value
	e.version++
	n.own = e
	n.next = e.meta
	e.meta = n
	for i := 1; i < entryNodes && n.next != nil; i++ {
		n = n.next
	}
	n.next = nil
	resp.version = e.version
	sh.Unlock()
	resp.wire = append(make([]byte, 0, 64), r.keyBytes...)
}

// check decodes a read's value and returns a byte of it; false: this is not the answer.
func (s *store) check(r *request, resp *response) (byte, bool) {
	var one byte
	if r.write == 0 {
		decoded := make([]byte, s.valueBytes)
		copy(decoded, resp.wire[len(r.keyBytes):])
		one = decoded[r.seq%uint64(len(decoded))]
	}
	return one, resp.seq == r.seq && string(resp.wire[:8]) == string(r.keyBytes[:8])
}
