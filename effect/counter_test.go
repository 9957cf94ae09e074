package effect_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// breach is the body of a counter's event: what it adds to each region.
type breach struct {
	Region  string
	Minutes string
	N       int64
	Lines   []breach
	Fail    string
}

type breached = pawl.Envelope[breach]

func counter(change func(*effect.Counter[breach])) *effect.Counter[breach] {
	c := &effect.Counter[breach]{
		Table: "breaches",
		Group: []effect.Column[breach]{
			{Name: "region", Kind: pawl.KindText, Value: func(e *breached) (any, error) {
				switch e.Body.Fail {
				case "error":
					return nil, errMade
				case "null":
					return nil, nil
				case "keep":
					return effect.Keep, nil
				}
				return e.Body.Region, nil
			}},
			effect.Time("hour", func(e *breached) time.Time { return e.OccurredAt.Truncate(time.Hour) }),
		},
		Sum: []effect.Column[breach]{
			effect.Int("n", func(e *breached) int64 { return e.Body.N }),
			{Name: "minutes", Kind: pawl.KindDecimal, Value: func(e *breached) (any, error) {
				if e.Body.Minutes == "" {
					return nil, nil
				}
				return e.Body.Minutes, nil
			}},
		},
	}
	if change != nil {
		change(c)
	}
	return c
}

func keptIn(c *effect.Counter[breach]) { c.Contributions.Table = "contributions" }

func split(c *effect.Counter[breach]) {
	c.Contributions.Table = "contributions"
	c.Split = func(e *breached) ([]breach, error) {
		if e.Body.Fail != "" {
			return nil, errMade
		}
		return e.Body.Lines, nil
	}
}

// hit is an event; corrects may be "".
func hit(key, corrects, region string, n int64, minutes string) breached {
	return breached{Identity: pawl.Identity{Key: key, Supersedes: corrects, OccurredAt: noon.Add(20 * time.Minute)}, Body: breach{Region: region, N: n, Minutes: minutes}}
}

func hits(key, corrects string, lines ...breach) breached {
	return breached{Identity: pawl.Identity{Key: key, Supersedes: corrects, OccurredAt: noon}, Body: breach{Lines: lines}}
}

func TestACounterAddsToTheGroupOfEachEvent(t *testing.T) {
	w := newWorld(t, counter(nil))
	late := hit("d", "", "eu", 1, "0.5")
	late.OccurredAt = noon.Add(-2 * time.Hour)
	got := w.fold(hit("a", "", "eu", 1, "1.25"), hit("b", "", "us", 1, ""), hit("c", "", "eu", 2, "2"), late)
	want(t, got, "applied", "applied", "applied", "applied")
	w.wantTable("breaches", "eu 10:00:00 1 0.5", "eu 12:00:00 3 3.25", "us 12:00:00 1 0")
	if got[0].RowAffected != "region=eu hour=2026-07-01T12:00:00Z" {
		t.Errorf("row affected: %q", got[0].RowAffected)
	}
	if calls := strings.Join(w.rows.calls, ", "); calls != "add breaches" {
		t.Errorf("calls: %s", calls)
	}
	w.fold(hit("e", "", "eu", -3, "-3.25"))
	w.wantTable("breaches", "eu 10:00:00 1 0.5", "eu 12:00:00 0 0.00", "us 12:00:00 1 0")
}

func TestWhatCannotBeCountedIsSetAside(t *testing.T) {
	bad := func(fail string) breached {
		e := hit("x", "", "eu", 1, "")
		e.Body.Fail = fail
		return e
	}
	for name, c := range map[string]struct {
		event breached
		want  string
	}{
		"an error":                  {bad("error"), `quarantined validation: column "region": made by the test`},
		"no group":                  {bad("null"), `quarantined validation: column "region": has no value`},
		"a group kept":              {bad("keep"), `quarantined validation: column "region": a group cannot be kept`},
		"no number":                 {hit("x", "", "eu", 1, "x"), `quarantined validation: column "minutes": "x" is no decimal number`},
		"a correction, not kept":    {hit("x", "z", "eu", 1, "1"), "quarantined validation: it corrects another event"},
		"a sum that does not fit":   {hit("x", "", "us", math.MaxInt64, ""), `quarantined validation: column "n": the sum does not fit`},
		"a sum that is far too low": {hit("x", "", "as", math.MinInt64, ""), `quarantined validation: column "n": the sum does not fit`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, counter(nil))
			want(t, w.fold(hit("a", "", "us", 1, "1"), hit("b", "", "as", -1, "1"), c.event), "applied", "applied", c.want)
			w.wantTable("breaches", "as 12:00:00 -1 1", "us 12:00:00 1 1")
		})
	}
}

func TestACorrectionTakesBackWhatItCorrects(t *testing.T) {
	steps := []breached{
		hit("a", "", "eu", 1, "1.5"), hit("b", "", "eu", 1, "2"), hit("c", "a", "us", 1, "1.25"), hit("d", "a", "us", 9, "9"), hit("e", "c", "us", 2, "3"),
	}
	wants := []string{"applied", "applied", "applied", `quarantined validation: "a" was corrected by "c" already: a further correction must correct that one`, "applied"}
	check := func(t *testing.T, w *world[breach]) {
		w.wantTable("breaches", "eu 12:00:00 1 2.0", "us 12:00:00 2 3.00")
		w.wantTable("contributions", "a eu 12:00:00 1 1.5 c", "b eu 12:00:00 1 2 -", "c us 12:00:00 1 1.25 e", "e us 12:00:00 2 3 -")
	}
	for name, states := range map[string]bool{"adding": false, "with states": true} {
		set := func(c *effect.Counter[breach]) { keptIn(c); c.States = states }
		t.Run(name+", in one batch", func(t *testing.T) {
			w := newWorld(t, counter(set))
			want(t, w.fold(steps...), wants...)
			check(t, w)
		})
		t.Run(name+", one by one", func(t *testing.T) {
			w := newWorld(t, counter(set))
			for i, e := range steps {
				want(t, w.fold(e), wants[i])
			}
			check(t, w)
		})
	}
	w := newWorld(t, counter(keptIn))
	w.fold(steps[:2]...)
	w.fold(steps[2])
	if calls := strings.Join(w.rows.calls, ", "); calls != "read contributions, insert contributions, put contributions, add breaches" {
		t.Errorf("calls: %s", calls)
	}
}

func TestACorrectionMayComeBeforeItsOriginal(t *testing.T) {
	w := newWorld(t, counter(keptIn))
	want(t, w.fold(hit("b", "a", "eu", 1, "1")), "applied")
	w.wantTable("contributions", "a eu 12:00:00 0 0 b", "b eu 12:00:00 1 1 -") // the engine keeps a itself from being counted
	want(t, w.fold(hit("c", "a", "eu", 1, "1"), hit("d", "z", "eu", 1, "1"), hit("e", "z", "eu", 1, "1")), `quarantined validation: "a" was corrected by "b"`, "applied",
		`quarantined validation: "z" was corrected by "d"`)
	w.wantTable("breaches", "eu 12:00:00 2 2")
}

func TestAnEventMayContributeToSeveralGroups(t *testing.T) {
	w := newWorld(t, counter(split))
	var many []breach
	for i := range 15 {
		many = append(many, breach{Region: fmt.Sprintf("r%02d", i), N: 1})
	}
	failing := hits("x", "")
	failing.Body.Fail = "x"
	got := w.fold(hits("a", "", breach{Region: "eu", N: 1, Minutes: "1"}, breach{Region: "us", N: 1}, breach{Region: "eu", N: 2, Minutes: "0.5"}), hits("b", ""), hits("m", "", many...), failing,
		hits("n", "", breach{Region: "eu", N: 1, Minutes: "x"}))
	want(t, got, "applied", "ignored: it contributes nothing", "applied", "quarantined validation: made by the test", `quarantined validation: part 1: column "minutes"`)
	if !strings.HasPrefix(w.table("contributions"), "a 1 eu 12:00:00 3 1.5 -\na 2 us 12:00:00 1 0 -\nm 1 r00") {
		t.Error(w.table("contributions"))
	}
	if got[2].RowAffected == "" || !strings.HasSuffix(got[2].RowAffected, "and 5 more") {
		t.Errorf("rows affected: %q", got[2].RowAffected)
	}
	want(t, w.fold(hits("c", "a", breach{Region: "eu", N: 1, Minutes: "1"}), hits("d", "m"), hits("e", "nothing yet")), "applied", "applied", "applied")
	lines := []string{"eu 12:00:00 1 1.0"}
	for i := range 15 {
		lines = append(lines, fmt.Sprintf("r%02d 12:00:00 0 0", i))
	}
	w.wantTable("breaches", append(lines, "us 12:00:00 0 0")...)
}

func TestAnEventIsCountedWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t, counter(split))
	full := breach{Region: "us", N: math.MaxInt64}
	want(t, w.fold(hits("a", "", full, breach{Region: "eu", N: 1}), hits("b", "", breach{Region: "eu", N: 5}, breach{Region: "new", N: 1}, full), hits("c", "a", breach{Region: "eu", N: 2}, full)),
		"applied", `quarantined validation: column "n": the sum does not fit`, "applied")
	w.wantTable("breaches", "eu 12:00:00 2 0", fmt.Sprintf("us 12:00:00 %d 0", int64(math.MaxInt64)))

	w = newWorld(t, counter(func(c *effect.Counter[breach]) { slices.Reverse(c.Sum) }))
	want(t, w.fold(hit("a", "", "eu", math.MaxInt64, "1"), hit("b", "", "eu", 1, "5")), "applied", "quarantined validation")
	w.wantTable("breaches", fmt.Sprintf("eu 12:00:00 1 %d", int64(math.MaxInt64)))
}

func TestTotalsAreEvidence(t *testing.T) {
	w := newWorld(t, counter(func(c *effect.Counter[breach]) { keptIn(c); c.States = true }))
	got := w.fold(hit("a", "", "eu", 1, "1"), hit("b", "a", "us", 2, "1"))
	eu := `{"region":"eu","hour":"2026-07-01T12:00:00Z","n":1,"minutes":"1"}`
	if got[0].StateBefore != "" || got[0].StateAfter != eu || got[1].StateBefore != "["+eu+",null]" || !strings.Contains(got[1].StateAfter, `"n":0`) {
		t.Errorf("states: %+v", got)
	}
	w.fold(hit("c", "z", "eu", 1, "1"))
	want(t, w.fold(hit("d", "z", "eu", 1, "1")), "quarantined validation")

	w = newWorld(t, counter(func(c *effect.Counter[breach]) { split(c); c.States = true }))
	w.fold(hits("c", "z")) // which has no group
	want(t, w.fold(hits("d", "z"), hits("e", "", breach{Region: "eu"})), "quarantined validation", "applied")
}

func TestACounterIsChecked(t *testing.T) {
	_, err := (&effect.Counter[breach]{}).Tables()
	wantError(t, err, "Table is empty", "Group is empty", "Sum is empty")
	_, err = counter(func(c *effect.Counter[breach]) {
		c.Group[0].Kind, c.Sum[0].Kind = pawl.KindJSON, pawl.KindText
		c.Contributions.Key = "k"
	}).Tables()
	wantError(t, err, `column "region" of Group is of kind json`, `column "n" of Sum is of kind text`, "columns but no Table")
	_, err = counter(func(c *effect.Counter[breach]) { keptIn(c); c.Contributions.Part = "p" }).Tables()
	wantError(t, err, "only there with Split")
}

// Totals are the sum of the contributions that stand: those of events that no event corrects.
func TestTotalsAreWhatStands(t *testing.T) {
	for _, states := range []bool{false, true} {
		t.Run(fmt.Sprintf("states %t", states), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				var all []breached
				for i := range rapid.IntRange(1, 15).Draw(rt, "events") {
					corrects := ""
					if rapid.Bool().Draw(rt, "is a correction") {
						if j := rapid.IntRange(0, 14).Draw(rt, "of"); j != i {
							corrects = fmt.Sprintf("k%02d", j)
						}
					}
					e := hits(fmt.Sprintf("k%02d", i), corrects)
					for range rapid.IntRange(0, 6).Draw(rt, "parts") {
						e.Body.Lines = append(e.Body.Lines, breach{Region: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(rt, "region"), N: rapid.Int64Range(-3, 3).Draw(rt, "n")})
					}
					all = append(all, e)
				}
				w := newWorld(t, counter(func(c *effect.Counter[breach]) { split(c); c.States = states }))
				by := map[string]string{} // who corrects
				counted := map[string]breached{}
				for _, b := range batches(rt, all) {
					b = slices.DeleteFunc(slices.Clone(b), func(e breached) bool { // as the engine does, before the effect is called
						if _, late := by[e.Key]; late {
							return true
						}
						refused := false
						if e.Supersedes != "" {
							if _, refused = by[e.Supersedes]; !refused {
								by[e.Supersedes] = e.Key
							}
						}
						if !refused {
							counted[e.Key] = e
						}
						return false
					})
					if len(b) > 0 {
						w.fold(b...)
					}
				}
				sums, there := map[string]int64{}, map[string]bool{}
				for _, e := range counted {
					for _, l := range e.Body.Lines {
						there[l.Region] = true
						if by[e.Key] == "" {
							sums[l.Region] += l.N
						}
					}
				}
				var lines []string
				for _, r := range slices.Sorted(maps.Keys(there)) {
					lines = append(lines, fmt.Sprintf("%s 12:00:00 %d 0", r, sums[r]))
				}
				if got := w.table("breaches"); got != strings.Join(lines, "\n") {
					rt.Fatalf("totals:\n%s\nmodel:\n%s", got, strings.Join(lines, "\n"))
				}
			})
		})
	}
}
