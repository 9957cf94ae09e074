package pawl

import (
	"cmp"
	"fmt"
	"slices"
)

// keptID tells one task of a kept record from another.
type keptID struct{ hold, early, quarantine, item int64 }

func idOf(k *Kept) keptID { return keptID{k.Hold, k.Early, k.Quarantine, k.Item} }

// give adds kept records whose turn it is, unless they are here already.
func (l *lane[Tx]) give(tasks []Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	for _, t := range tasks {
		id := idOf(&t.Kept)
		if l.tasked[id] {
			continue
		}
		l.tasked[id] = true
		if !slices.Contains(l.routes, t.Route) {
			l.r.cfg.Logger.Warn("a kept record stays where it is: its route does not read its topic any more", "partition",
				l.assignment.Partition.String(), "route", l.r.routeNames[t.Route], "offset", t.Record.Offset)
			continue
		}
		l.tasks = append(l.tasks, t)
	}
	l.makeReady()
}

// tasksFirst reports whether kept records go before what waits, where the order is that of the partition: they are older than
// any new record, and may be what it waits for. But they do not overtake each other. It is called with mu held.
func (l *lane[Tx]) tasksFirst() bool {
	for b := range l.bundles {
		if b.kept {
			return false
		}
	}
	return len(l.tasks) > 0
}

// cutTasks is called with mu held.
func (l *lane[Tx]) cutTasks(n int) []Task {
	n = min(n, len(l.tasks))
	cut := slices.Clone(l.tasks[:n])
	l.tasks = slices.Delete(l.tasks, 0, n)
	return cut
}

// decodeTasks fills a bundle with kept records, each for its route alone.
func (l *lane[Tx]) decodeTasks(b *bundle[Tx], tasks []Task) {
	n := len(tasks)
	b.records = make([]*Record, n)
	b.steps = make([][]*step[Tx], len(l.routes))
	for i, route := range l.routes {
		b.steps[i] = make([]*step[Tx], n)
		sec := l.r.routes[route].open(n)
		for j := range tasks {
			t := &tasks[j]
			b.records[j] = &t.Record
			if t.Route != route {
				continue
			}
			st, err := newTaskStep(&l.r.routes[route], sec, t)
			key := st.Identity.Key
			other := t.Kept.Key != "" && t.Kept.Key != key
			if other { // whatever it was edited to, what is decided is its own key
				st.Identity, st.KeyID, st.Fingerprint = Identity{Key: t.Kept.Key}, NewKeyID(t.Kept.Key), t.Kept.Original
			}
			switch {
			case t.Act == ActSkip:
				st.Outcome, st.Reason, st.fixed = Skipped, clip("by "+t.By+": "+t.Why), true
			case err != nil: // it is set aside already
			case other:
				st.setAside(CauseValidation, fmt.Errorf("the edit has another key, %q: the record was %q", key, t.Kept.Key))
				st.fixed = true
			}
			b.steps[i][j] = st
		}
	}
}

// newTaskStep decodes a kept record into sec.
func newTaskStep[Tx any](route *boundRoute[Tx], sec section[Tx], t *Task) (*step[Tx], error) {
	st := &step[Tx]{section: sec, at: sec.size()}
	st.Route, st.Record, st.Mode, st.Kept, st.Prior = t.Route, &t.Record, Live, &t.Kept, t.Prior
	route.rules(&st.Decision)
	err := sec.decode(st.Record, &st.Decision)
	if err != nil {
		st.setAside(CausePoison, err)
		st.fixed = true
	}
	return st, err
}

// pull puts the kept records that stand at the head of a waiting bundle's streams into it: what it waits for may be that they
// are settled. It reports whether there are any, and is called with mu held.
func (l *lane[Tx]) pull(b *bundle[Tx]) bool {
	var older []*step[Tx]
	for _, fifo := range b.streams {
		n := 0
		for n < len(fifo.steps) && fifo.steps[n].Kept != nil {
			n++
		}
		older = append(older, fifo.steps[:n]...)
		fifo.steps = slices.Delete(fifo.steps, 0, n)
	}
	if len(older) == 0 {
		return false
	}
	l.waiting -= len(older)
	all := append(older, b.steps[0]...)
	slices.SortFunc(all, func(x, y *step[Tx]) int { return cmp.Compare(x.Record.Offset, y.Record.Offset) })
	b.records, b.steps, b.until, b.failing = nil, nil, 0, 0
	l.gather(b, all)
	return true
}

// dropped forgets kept records that were settled, or are kept no longer.
func (l *lane[Tx]) dropped(kept []Kept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range kept {
		delete(l.tasked, idOf(&k))
	}
	l.r.askOrders() // there may be more behind them
}

// forget has tasks given again with the next orders. It is called with mu held.
func (l *lane[Tx]) forget(tasks []Task) {
	for i := range tasks {
		delete(l.tasked, idOf(&tasks[i].Kept))
	}
}

// dropWaiting forgets every kept record that waits: behind one that was dropped, another of its stream would be tried before
// it.
func (l *lane[Tx]) dropWaiting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drops++
	l.forget(l.tasks)
	l.tasks = nil
	for _, st := range l.dropKept() {
		delete(l.tasked, idOf(st.Kept))
	}
}

// dropKept gives up kept records: someone else has settled them, or their operation was stopped.
func (b *bundle[Tx]) dropKept() {
	var kept []Kept
	for i := len(b.records) - 1; i >= 0; i-- {
		if k := b.keptAt(i); k != nil {
			kept = append(kept, *k)
			b.records = slices.Delete(b.records, i, i+1)
			for r := range b.steps {
				b.steps[r] = slices.Delete(b.steps[r], i, i+1)
			}
		}
	}
	b.until, b.failing = 0, 0
	b.l.dropWaiting()
	b.l.dropped(kept)
}
