package test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// foldModel is what declared effects promise: the distinct events, folded one after the other, each stream by version. It knows of no
// batches, processes, partitions or copies: none of them may be seen in the end.
type foldModel struct {
	events map[string]fact // by key
}

func newFoldModel() *foldModel { return &foldModel{map[string]fact{}} }

func (m *foldModel) take(f fact) { m.events[f.Key] = f }

// streams are the events of each stream, by version and then by key.
func (m *foldModel) streams() map[string][]fact {
	of := map[string][]fact{}
	for _, key := range slices.Sorted(maps.Keys(m.events)) {
		f := m.events[key]
		of[f.Stream] = append(of[f.Stream], f)
	}
	for _, all := range of {
		slices.SortStableFunc(all, func(a, b fact) int { return int(a.Version - b.Version) })
	}
	return of
}

func (m *foldModel) corrected() map[string]bool {
	by := map[string]bool{}
	for _, f := range m.events {
		if f.Corrects != "" {
			by[f.Corrects] = true
		}
	}
	return by
}

// number is a decimal in one spelling.
func number(text string) string {
	if text == "" || text == "-" {
		return "-"
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return "no number: " + text
	}
	return r.RatString()
}

func sum(a, b string) string {
	x, _ := new(big.Rat).SetString(a)
	y, ok := new(big.Rat).SetString(b)
	if !ok {
		return a
	}
	return x.Add(x, y).RatString()
}

// rows is what a table should hold, in the form of foldTables.
func (m *foldModel) rows(table string) (lines []string) {
	switch table {
	case "cases", "latest", "flow":
		for stream, all := range m.streams() {
			at := fact{}
			for _, f := range all {
				if f.Version == at.Version+1 {
					at = f
				}
			}
			line := fmt.Sprintf("%s|%d|%s", stream, at.Version, at.State)
			if table != "flow" {
				line += "|" + number(at.Fee)
			}
			lines = append(lines, line)
		}
	case "trail":
		for key, f := range m.events {
			lines = append(lines, fmt.Sprintf("%s|%s|%d|%s", key, f.Stream, f.Version, number(f.Fee)))
		}
	case "entries":
		for key, f := range m.events {
			if f.Fee != "" {
				lines = append(lines, fmt.Sprintf("%s|1|fees|%s", key, number(f.Fee)), fmt.Sprintf("%s|2|team %s|%s", key, f.Team, number(negated(f.Fee))))
			}
		}
	case "balances":
		balance := map[string]string{}
		for _, f := range m.events {
			if f.Fee != "" {
				for account, amount := range map[string]string{"fees": f.Fee, "team " + f.Team: negated(f.Fee)} {
					balance[account] = sum(cmpOr(balance[account], "0"), amount)
				}
			}
		}
		for account, b := range balance {
			lines = append(lines, account+"|"+b)
		}
	case "totals":
		events, fees, corrected := map[string]int{}, map[string]string{}, m.corrected()
		for key, f := range m.events {
			if !corrected[key] {
				events[f.Team]++
				fees[f.Team] = sum(cmpOr(fees[f.Team], "0"), f.Fee)
			}
		}
		for team, n := range events {
			lines = append(lines, fmt.Sprintf("%s|%d|%s", team, n, number(fees[team])))
		}
	case "escalations":
		for stream, all := range m.streams() {
			if slices.ContainsFunc(all, func(f fact) bool { return f.State == "HEARD" }) {
				lines = append(lines, "escalate:"+stream+"|"+stream+"|HEARD")
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// foldTables are the tables of each route, and how they are read: what one event's id is, where several say the same, is nobody's
// promise, and a group that everything was taken back from may be there or not.
var foldTables = map[string][][2]string{
	"cases":       {{"cases", `select case_id, version, state, fee from cases`}},
	"flow":        {{"flow", `select case_id, version, state from flow`}},
	"latest":      {{"latest", `select case_id, version, state, fee from latest`}},
	"trail":       {{"trail", `select event_key, case_id, version, fee from trail`}},
	"ledger":      {{"entries", `select event_key, line, account, amount from entries`}, {"balances", `select account, balance from balances`}},
	"totals":      {{"totals", `select team, events, fees from totals where events <> 0`}},
	"escalations": {{"escalations", `select id, case_id, state from escalations`}},
}

// decimals are the tables whose last column is one.
const decimals = "cases latest trail entries balances totals"

// folded reads a table as the model writes it.
func (h *house) folded(table, query string) (lines []string) {
	h.Helper()
	for _, values := range h.rows(query) {
		if last := len(values) - 1; strings.Contains(decimals, table) {
			values[last] = number(values[last])
		}
		lines = append(lines, strings.Join(values, "|"))
	}
	slices.Sort(lines)
	return lines
}
