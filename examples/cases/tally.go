package main

// tally counts outcomes, by delivery and by event. An event that was delivered several times counts once: as applied or
// stale if one of its deliveries was, and otherwise by why the last of them was set aside.
type tally struct {
	deliveries map[string]int
	fate       map[string]string // by event id
}

// add counts a delivery. eventID is empty where the record could not be decoded.
func (t *tally) add(eventID, outcome string) {
	if t.deliveries == nil {
		t.deliveries, t.fate = map[string]int{}, map[string]string{}
	}
	t.deliveries[outcome]++
	if eventID == "" || outcome == duplicate || outcome == conflict {
		return // another delivery says what became of the event
	}
	if before := t.fate[eventID]; before != applied && before != stale {
		t.fate[eventID] = outcome
	}
}

// events counts the distinct events by what became of them.
func (t *tally) events() map[string]int {
	n := map[string]int{}
	for _, outcome := range t.fate {
		n[outcome]++
	}
	return n
}
