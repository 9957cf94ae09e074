package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlhq/pawl/internal/pgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pawl": main})
}

// Every command is run as people run it: output, stderr and exit code. What asks a store runs on each kind.
func TestScripts(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		testscript.Run(t, params("testdata/script/plain", func(env *testscript.Env) error { return nil }))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testscript.Run(t, params("testdata/script/store", func(env *testscript.Env) error {
			env.Setenv("PAWL_STORE", "sqlite:"+filepath.Join(env.WorkDir, "pawl.db"))
			env.Setenv("KIND", "sqlite")
			return nil
		}))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		pgtest.URL(t) // skips where there is no server
		testscript.Run(t, params("testdata/script/store", func(env *testscript.Env) error {
			env.Setenv("PAWL_STORE", pgtest.URL(env.T().(testing.TB)))
			env.Setenv("KIND", "postgres")
			return nil
		}))
	})
}

func params(dir string, setup func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir: dir, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise a program that was built with -race waits a second before it ends
			env.Setenv("HOME", env.WorkDir)
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"seed": cmdSeed, "work": cmdWork, "raise": cmdRaise, "shape": cmdShape, "code": cmdCode, "json": cmdJSON,
			"tamper": cmdTamper, "kept": cmdKept, "shown": cmdShown, "unzip": cmdUnzip,
		},
	}
}

// code N command args…: the command ends with that exit code.
func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command args…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		if _, scan := fmt.Sscanf(err.Error(), "exit status %d", &got); scan != nil {
			ts.Fatalf("%v", err)
		}
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// shown STREAM: it is explained as of the time at which an event of it is shown as applied.
func cmdShown(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("pawl", "explain", args[0]))
	at := regexp.MustCompile(`(?m)^(20\S+Z) +\S+ +applied `).FindStringSubmatch(ts.ReadFile("stdout"))
	if at == nil {
		ts.Fatalf("nothing is shown as applied")
	}
	ts.Check(ts.Exec("pawl", "explain", args[0], "--as-of", at[1]))
}

// shape lines…: stdout is JSON whose documents have exactly these paths, an array's elements taken together.
func cmdShape(ts *testscript.TestScript, neg bool, args []string) {
	paths := map[string]bool{}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	for dec.More() {
		var v any
		ts.Check(dec.Decode(&v))
		collect(v, "", paths)
	}
	var got []string
	for p := range paths {
		got = append(got, p)
	}
	slices.Sort(got)
	want := strings.Fields(ts.ReadFile(args[0]))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		ts.Fatalf("the shape is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func collect(v any, at string, paths map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			collect(inner, at+"."+k, paths)
		}
	case []any:
		if len(v) == 0 {
			paths[at+"[]"] = true
		}
		for _, inner := range v {
			collect(inner, at+"[]", paths)
		}
	default:
		paths[at] = true
	}
}

// json path value: stdout is one JSON document that has value there, such as items.0.id.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for step := range strings.SplitSeq(args[0], ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(at) {
				ts.Fatalf("%s: no element %s of %d", args[0], step, len(at))
			}
			v = at[i]
		default:
			v = nil
		}
	}
	if got := fmt.Sprint(v); (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}
