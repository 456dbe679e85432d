package main

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"log"
	"sync"
	"sync/atomic"
	"time"
)

const batchMax = 1024

// Reservation is a row of the table reservations.
type Reservation struct {
	ID        string
	SKU       string
	Owner     string
	Key       string
	Quantity  int64
	ExpiresAt time.Time
}

// Store makes decisions durable. Grant writes a batch and the pool's new counter in one transaction.
type Store interface {
	Load() (pools map[string]Counts, keyed []Reservation, err error)
	Provision(sku string, counts Counts) error
	Grant(sku string, granted []*Reservation, available int64) error
}

type Counts struct{ Total, Available int64 }

type owned struct{ owner, key string }

type attempt struct {
	wanted  Reservation
	granted *Reservation
	replay  bool
	done    chan struct{}
}

// Pool has one goroutine that decides. Others read its counters and the index of keys, to refuse without it.
type Pool struct {
	sku       string
	store     Store
	total     int64
	available atomic.Int64
	attempts  chan *attempt
	mutex     sync.RWMutex
	byKey     map[owned]*Reservation
}

func newPool(store Store, sku string, counts Counts) *Pool {
	pool := &Pool{
		sku: sku, store: store, total: counts.Total,
		attempts: make(chan *attempt, 4*batchMax), byKey: map[owned]*Reservation{},
	}
	pool.available.Store(counts.Available)
	return pool
}

var attempts = sync.Pool{New: func() any { return &attempt{done: make(chan struct{}, 1)} }}

// Reserve waits until the decision is durable. A nil reservation means that too few units are available.
func (pool *Pool) Reserve(wanted Reservation) (granted *Reservation, replay bool) {
	if pool.refuses(wanted) {
		return nil, false
	}
	asked := attempts.Get().(*attempt)
	asked.wanted, asked.granted, asked.replay = wanted, nil, false
	pool.attempts <- asked
	<-asked.done
	granted, replay = asked.granted, asked.replay
	asked.granted = nil
	attempts.Put(asked)
	return granted, replay
}

// An empty pool has already indexed every key it will ever grant: units do not return, and a key is indexed before the
// counter changes. So an unknown key cannot be a retry.
func (pool *Pool) refuses(wanted Reservation) bool {
	if pool.available.Load() >= wanted.Quantity {
		return false
	}
	if wanted.Key == "" {
		return true
	}
	pool.mutex.RLock()
	_, known := pool.byKey[owned{wanted.Owner, wanted.Key}]
	pool.mutex.RUnlock()
	return !known
}

func (pool *Pool) run() {
	batch := make([]*attempt, 0, batchMax)
	granted := make([]*Reservation, 0, batchMax)
	for first := range pool.attempts {
		batch = pool.gather(append(batch[:0], first))
		granted = pool.decide(batch, granted[:0])
		if len(granted) > 0 {
			if err := pool.store.Grant(pool.sku, granted, pool.available.Load()); err != nil {
				// It is unknown whether the batch was stored. The next process reads the actual state.
				log.Fatal(err)
			}
		}
		for _, each := range batch {
			each.done <- struct{}{}
		}
	}
}

func (pool *Pool) gather(batch []*attempt) []*attempt {
	for len(batch) < batchMax {
		select {
		case next := <-pool.attempts:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (pool *Pool) decide(batch []*attempt, granted []*Reservation) []*Reservation {
	available, now := pool.available.Load(), time.Now()
	pool.mutex.Lock()
	for _, each := range batch {
		key := owned{each.wanted.Owner, each.wanted.Key}
		if key.key != "" {
			if earlier := pool.byKey[key]; earlier != nil {
				each.granted, each.replay = earlier, true
				continue
			}
		}
		if available < each.wanted.Quantity {
			continue
		}
		available -= each.wanted.Quantity
		reservation := each.wanted
		reservation.ID = newID(now)
		each.granted = &reservation
		granted = append(granted, &reservation)
		if key.key != "" {
			pool.byKey[key] = &reservation
		}
	}
	pool.mutex.Unlock()
	pool.available.Store(available)
	return granted
}

// Pools by SKU. Each is started when it is created or loaded.
type Pools struct {
	store Store
	mutex sync.RWMutex
	bySKU map[string]*Pool
}

func loadPools(store Store) (*Pools, error) {
	counts, keyed, err := store.Load()
	if err != nil {
		return nil, err
	}
	pools := &Pools{store: store, bySKU: map[string]*Pool{}}
	for sku, each := range counts {
		pools.bySKU[sku] = newPool(store, sku, each)
	}
	for _, each := range keyed {
		pools.bySKU[each.SKU].byKey[owned{each.Owner, each.Key}] = &each
	}
	for _, pool := range pools.bySKU {
		go pool.run()
	}
	return pools, nil
}

func (pools *Pools) find(sku string) *Pool {
	pools.mutex.RLock()
	defer pools.mutex.RUnlock()
	return pools.bySKU[sku]
}

func (pools *Pools) create(sku string, total int64) (*Pool, error) {
	pools.mutex.Lock()
	defer pools.mutex.Unlock()
	if pool := pools.bySKU[sku]; pool != nil {
		return pool, nil
	}
	if err := pools.store.Provision(sku, Counts{total, total}); err != nil {
		return nil, err
	}
	pool := newPool(pools.store, sku, Counts{total, total})
	pools.bySKU[sku] = pool
	go pool.run()
	return pool, nil
}

var (
	idPrefix [8]byte
	idNumber atomic.Uint64
)

func init() { rand.Read(idPrefix[:]) }

// IDs are ordered by time, so that inserts append to the primary key, and unguessable because of the process's prefix.
func newID(now time.Time) string {
	var id [20]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<20|idNumber.Add(1)&0xfffff)
	copy(id[8:], idPrefix[:])
	binary.BigEndian.PutUint32(id[16:], uint32(idNumber.Load()))
	return hex.EncodeToString(id[:])
}
