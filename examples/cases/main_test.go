package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runIt runs the command and returns its exit status and what it printed.
func runIt(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}

func wantHeld(t *testing.T, status int, out, errs string) {
	t.Helper()
	if status != 0 || errs != "" || !strings.Contains(out, "The check holds") {
		t.Fatalf("status %d\n%s\n%s", status, out, errs)
	}
}

func TestTheCheckHoldsAndNothingIsLeftBehind(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	status, out, errs := runIt(t, "-cases", "150", "-seed", "1")
	wantHeld(t, status, out, errs)
	for _, want := range []string{
		"Seed 1, 150 cases", "is stopped in good order", "is cut off without time to finish", "came again on partition", "was stale:", "is in quarantine:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
	left, err := os.ReadDir(temp)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSendingItAllAgainAppliesNothingTwice(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-cases", "60", "-seed", "2", "-dir", dir}
	status, out, errs := runIt(t, args...)
	wantHeld(t, status, out, errs)
	first := count(t, dir, `select count(*) from case_history`)

	status, out, errs = runIt(t, args...)
	wantHeld(t, status, out, errs)
	if again := count(t, dir, `select count(*) from case_history`); again != first {
		t.Errorf("%d effects, and %d after all of it was sent again", first, again)
	}

	status, out, errs = runIt(t, "-cases", "60", "-seed", "3", "-dir", dir)
	wantHeld(t, status, out, errs)
	if more := count(t, dir, `select count(*) from case_history`); more <= first {
		t.Errorf("%d effects, and %d after other events were sent", first, more)
	}
}

func TestAWrongRowFailsTheCommand(t *testing.T) {
	dir := t.TempDir()
	status, out, errs := runIt(t, "-cases", "50", "-seed", "4", "-dir", dir)
	wantHeld(t, status, out, errs)
	exec(t, dir, `update case_projection set updated_at = '2000-01-01T00:00:00Z' where case_id = (select case_id from case_history where version = 1 limit 1)`)
	status, out, _ = runIt(t, "-cases", "50", "-seed", "5", "-dir", dir)
	if status != 1 || !strings.Contains(out, "THE CHECK FAILED") || !strings.Contains(out, "1  different") {
		t.Errorf("status %d\n%s", status, out)
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	taken := t.TempDir()
	must(t, os.Mkdir(filepath.Join(taken, "cases.db"), 0o700))
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"a directory that cannot be made", []string{"-dir", filepath.Join(file, "below")}, 1, "cannot keep anything in " + file},
		{"a database that cannot be opened", []string{"-dir", taken}, 1, filepath.Join(taken, "cases.db")},
		{"no cases", []string{"-cases", "0"}, 2, "-cases must be at least 1"},
		{"an argument", []string{"now"}, 2, "no arguments"},
		{"an unknown flag", []string{"-speed", "9"}, 2, "-speed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, errs := runIt(t, c.args...)
			if status != c.status || !strings.Contains(errs, c.want) {
				t.Errorf("status %d, %q; want %d, %q", status, errs, c.status, c.want)
			}
		})
	}
}

func TestATopicThatIsGoneIsNoticed(t *testing.T) {
	dir := t.TempDir()
	status, out, errs := runIt(t, "-cases", "50", "-seed", "6", "-dir", dir)
	wantHeld(t, status, out, errs)
	must(t, os.RemoveAll(filepath.Join(dir, "kafka")))
	status, _, errs = runIt(t, "-cases", "10", "-seed", "6", "-dir", dir)
	if status != 1 || !strings.Contains(errs, "use another -dir") {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestAnInterruptEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	// The first member starts: now.
	out := writerFunc(func(text []byte) {
		if strings.Contains(string(text), "member 1 starts") {
			cancel()
		}
	})
	if status := run(ctx, []string{"-cases", "500", "-seed", "7"}, out, &errs); status != 1 || errs.String() != "cases: interrupted\n" {
		t.Errorf("status %d, %q", status, errs.String())
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func TestComma(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := comma(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func withDatabase(t *testing.T, dir string, f func(*sql.DB)) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "cases.db"))
	must(t, err)
	f(db)
	must(t, db.Close())
}

func count(t *testing.T, dir, query string) (n int) {
	t.Helper()
	withDatabase(t, dir, func(db *sql.DB) { must(t, db.QueryRow(query).Scan(&n)) })
	return n
}

func exec(t *testing.T, dir, query string) {
	t.Helper()
	withDatabase(t, dir, func(db *sql.DB) {
		r, err := db.Exec(query)
		must(t, err)
		if n, err := r.RowsAffected(); err != nil || n != 1 {
			must(t, fmt.Errorf("%s: %d rows, %w", query, n, err))
		}
	})
}
