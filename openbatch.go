package pawl

// openBatch is the head of a lane, decoded once however often it is tried.
type openBatch[Tx any] struct {
	records []Record
	routes  [][]step[Tx] // per route that reads the topic, one step a record
}

func (b *openBatch[Tx]) drop(n int) {
	b.records = b.records[n:]
	for i := range b.routes {
		b.routes[i] = b.routes[i][n:]
	}
}

// head returns the steps to try, route by route, and how many records they are of.
func (l *lane[Tx]) head() ([]*step[Tx], int) {
	if l.open == nil {
		l.open = l.decode()
	}
	n := min(len(l.open.records), l.limit)
	if l.careful > 0 {
		n = min(n, carefulLimit)
	}
	if l.until > 0 {
		n = min(n, l.open.below(l.until))
	}
	if l.failing > 0 {
		n = min(n, max(l.open.below(l.failing)/2, 1))
	}
	steps := make([]*step[Tx], 0, n*len(l.open.routes))
	for _, of := range l.open.routes {
		for i := range n {
			steps = append(steps, &of[i])
		}
	}
	return steps, n
}

// below counts the records before offset, and at least one.
func (b *openBatch[Tx]) below(offset int64) int {
	n := 0
	for n < len(b.records) && b.records[n].Offset < offset {
		n++
	}
	return max(n, 1)
}

// decode cuts a batch from the queue. What cannot be decoded is decided here: it is quarantined with its bytes.
func (l *lane[Tx]) decode() *openBatch[Tx] {
	l.mu.Lock()
	n, bytes := 0, 0
	for n < len(l.queue) && n < l.limit && (n == 0 || bytes < batchBytes) {
		bytes += l.queue[n].size()
		n++
	}
	b := &openBatch[Tx]{records: l.queue[:n:n]}
	l.mu.Unlock()

	for _, route := range l.routes {
		sec := l.r.routes[route].open(n)
		steps := make([]step[Tx], n)
		for i := range b.records {
			st := &steps[i]
			st.Route, st.Record, st.Mode, st.section, st.at = route, &b.records[i], Live, sec, i
			if err := sec.decode(st.Record, &st.Decision); err != nil {
				st.setAside(CausePoison, err)
				st.fixed = true
			}
		}
		b.routes = append(b.routes, steps)
	}
	return b
}
