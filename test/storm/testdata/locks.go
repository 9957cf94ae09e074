// Package locks has mutexes that testing/synctest knows how to wait for: a goroutine that waits for one is in
// sync.Cond.Wait. It takes the place of sync's for the storm alone.
package locks

import "sync"

// Mutex is sync.Mutex.
type Mutex struct{ rw RWMutex }

// Lock implements sync.Locker.
func (m *Mutex) Lock() { m.rw.Lock() }

// Unlock implements sync.Locker.
func (m *Mutex) Unlock() { m.rw.Unlock() }

// RWMutex is sync.RWMutex: a writer that waits holds back new readers.
type RWMutex struct {
	once    sync.Once
	mu      sync.Mutex // never held while waiting
	changed *sync.Cond
	readers int
	waiting int // writers
	written bool
}

func (m *RWMutex) enter() {
	m.once.Do(func() { m.changed = sync.NewCond(&m.mu) })
	m.mu.Lock()
}

// Lock implements sync.Locker.
func (m *RWMutex) Lock() {
	m.enter()
	defer m.mu.Unlock()
	m.waiting++
	for m.written || m.readers > 0 {
		m.changed.Wait()
	}
	m.waiting--
	m.written = true
}

// Unlock implements sync.Locker.
func (m *RWMutex) Unlock() {
	m.enter()
	defer m.mu.Unlock()
	if !m.written {
		panic("locks: unlock of an unlocked mutex")
	}
	m.written = false
	m.changed.Broadcast()
}

// RLock locks for reading.
func (m *RWMutex) RLock() {
	m.enter()
	defer m.mu.Unlock()
	for m.written || m.waiting > 0 {
		m.changed.Wait()
	}
	m.readers++
}

// RUnlock ends reading.
func (m *RWMutex) RUnlock() {
	m.enter()
	defer m.mu.Unlock()
	if m.readers == 0 {
		panic("locks: end of reading without a beginning")
	}
	m.readers--
	m.changed.Broadcast()
}
