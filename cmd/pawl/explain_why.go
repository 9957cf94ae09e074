package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl"
)

// sentences answer "why is this row what it is", one for each route and each sense of what is asked.
func (a *app) sentences(consumer, asked string, h *history) []string {
	of := map[sense][]pawl.Evidence{}
	for i := range h.events {
		is := h.by[spotOf(&h.events[i])]
		of[is] = append(of[is], h.events[i])
	}
	var all []string
	for _, is := range slices.SortedFunc(maps.Keys(of), func(x, y sense) int {
		return cmp.Or(strings.Compare(x.route, y.route), cmp.Compare(slices.Index(h.kinds, x.kind), slices.Index(h.kinds, y.kind)))
	}) {
		here, elsewhere := []pawl.Evidence{}, []pawl.Evidence{}
		for _, e := range of[is] {
			if isElsewhere(&e, is, asked) {
				elsewhere = append(elsewhere, e)
			} else {
				here = append(here, e)
			}
		}
		all = append(all, a.sentence(fmt.Sprintf("%s/%s: %s %q", consumer, is.route, is.kind, asked), here, elsewhere, h.acts, h.cut[is]))
	}
	return all
}

// sentence is about the events of one route; elsewhere is what became of their keys in other streams, and cut says that there were
// earlier ones.
func (a *app) sentence(subject string, events, elsewhere []pawl.Evidence, acts []pawl.AuditEntry, cut bool) string {
	var last, latest *pawl.Evidence
	for i := range events {
		e := &events[i]
		if latest == nil || !isAwaited(e) {
			latest = e
		}
		if e.Claim && e.Outcome == pawl.Applied && (last == nil || e.ProcessedAt.After(last.ProcessedAt) || e.Identity.Version >= last.Identity.Version) {
			last = e // of one batch, whatever came early is behind what it waited for
		}
	}
	var b strings.Builder
	b.WriteString(subject)
	if last == nil && isAwaited(latest) {
		fmt.Fprintf(&b, " has had no effect: it has not come, and %q of %s has corrected it at %s", latest.SupersededBy, place(latest), a.at(latest.ProcessedAt))
	} else if last == nil {
		b.WriteString(" has had no effect")
		if cut {
			fmt.Fprintf(&b, " in its latest %d records (--all looks further)", len(events))
		}
		fmt.Fprintf(&b, ": its latest record, %s, was %s at %s", place(latest), latest.Outcome, a.at(latest.ProcessedAt))
		if latest.Reason != "" {
			b.WriteString(" (" + firstLine(latest.Reason) + ")")
		}
	} else {
		b.WriteString(" is as it is")
		if last.Identity.Version > 0 {
			fmt.Fprintf(&b, ", at version %d,", last.Identity.Version)
		}
		b.WriteString(" because ")
		if last.Identity.Type != "" {
			b.WriteString(last.Identity.Type + " ")
		}
		fmt.Fprintf(&b, "%q of %s was applied at %s", cmp.Or(last.Identity.EventID, last.Identity.Key), place(last), a.at(last.ProcessedAt))
		if last.VersionBefore > 0 {
			fmt.Fprintf(&b, " over version %d", last.VersionBefore)
		}
		if last.StateAfter != "" {
			fmt.Fprintf(&b, " and made it %s", last.StateAfter)
		}
		if act := actOn(acts, last); act != nil {
			fmt.Fprintf(&b, ", by %s's %s (%s)", act.By, act.What, act.Why)
		}
		if last.SupersededBy != "" {
			fmt.Fprintf(&b, ", and was corrected by %q since", last.SupersededBy)
		}
	}
	if text := without(events, elsewhere, acts); text != "" {
		if cut {
			text = fmt.Sprintf("; of its latest %d records: %s", len(events), strings.TrimPrefix(text, "; "))
		}
		b.WriteString(text)
	}
	return printable(b.String()) + "."
}

// actOn is the act by which a record took effect, where it was kept before.
func actOn(acts []pawl.AuditEntry, e *pawl.Evidence) *pawl.AuditEntry {
	for i := range acts {
		if samePlace(e, acts[i].Partition, acts[i].Offset) && acts[i].Quarantine != 0 && acts[i].Outcome == e.Outcome {
			return &acts[i]
		}
	}
	return nil
}

// isAwaited reports whether e stands for an event that has not come, at the place of the correction that came before it.
func isAwaited(e *pawl.Evidence) bool {
	return e.Claim && e.Outcome == pawl.Superseded && e.Fingerprint == pawl.Fingerprint{}
}

// without counts what changed nothing, what operators took out of sight, what still waits, and what had its effect elsewhere.
func without(events, elsewhere []pawl.Evidence, acts []pawl.AuditEntry) string {
	// A record that was set aside is there no more where it was decided, or where an operator has skipped or archived it. A
	// conflict stays there although its key is decided. One that was held has had its turn where its key is decided, or where
	// it is anything but held.
	settled, released, decided := map[spot]bool{}, map[spot]bool{}, map[string]bool{}
	away := map[pawl.Outcome]int{}
	for i, e := range slices.Concat(events, elsewhere) {
		at := spot{at: e.Partition, offset: e.Offset}
		settled[at] = settled[at] || e.Claim
		released[at] = released[at] || e.Outcome != pawl.Held
		if e.Claim {
			decided[e.Identity.Key] = true
		}
		if e.Claim && i >= len(events) {
			away[e.Outcome]++
		}
	}
	archived := map[spot]bool{}
	for i := range acts {
		act := &acts[i]
		if at := (spot{at: act.Partition, offset: act.Offset}); act.Quarantine != 0 && act.Outcome != pawl.Quarantined && act.Outcome != pawl.Held {
			archived[at] = !settled[at] && act.What == string(pawl.OperationArchive)
			settled[at] = true
		}
	}
	idle, waiting := map[pawl.Outcome]int{}, map[pawl.Outcome]int{}
	hidden := 0
	for i := range events {
		e := &events[i]
		at := spot{at: e.Partition, offset: e.Offset}
		switch {
		case isAwaited(e):
		case e.Outcome == pawl.Quarantined && archived[at]:
			hidden++
		case e.Outcome == pawl.Quarantined && !settled[at], e.Outcome == pawl.Held && !decided[e.Identity.Key] && !released[at]:
			waiting[e.Outcome]++
		case e.Outcome != pawl.Applied && e.Outcome != pawl.Held && e.Outcome != pawl.Quarantined:
			idle[e.Outcome]++
		}
	}
	text := ""
	if s := counts(idle); s != "" {
		text += "; without effect: " + s
	}
	if hidden > 0 {
		text += fmt.Sprintf("; archived: %d", hidden)
	}
	if s := counts(waiting); s != "" {
		text += "; not decided: " + s
	}
	if s := counts(away); s != "" {
		text += "; under the same keys, in other streams: " + s
	}
	return text
}

func samePlace(e *pawl.Evidence, p pawl.Partition, offset int64) bool {
	return e.Partition == p && e.Offset == offset
}

func counts(of map[pawl.Outcome]int) string {
	var all []string
	for o := pawl.Applied; o <= pawl.Skipped; o++ {
		if of[o] > 0 {
			all = append(all, fmt.Sprintf("%d %s", of[o], o))
		}
	}
	return strings.Join(all, ", ")
}

func place(e *pawl.Evidence) string { return position(e.Partition.Topic, e.Partition.Index, e.Offset) }
