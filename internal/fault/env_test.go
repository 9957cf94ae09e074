//go:build unix

package fault

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const childVariable = "PAWL_TEST_FAULT_CHILD"

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		in, err := FromEnv(spec)
		if err != nil {
			os.Exit(2)
		}
		for range 3 {
			if in(Committed) != nil {
				os.Exit(3)
			}
			os.Stdout.WriteString("passed\n")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, spec string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := new(strings.Builder)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+spec)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, out
}

func TestKillKillsTheProcessAtThatHit(t *testing.T) {
	cmd, out := child(t, "committed:2=kill,taken:1=error")
	cmd.Wait()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, want SIGKILL", cmd.ProcessState)
	}
	if out.String() != "passed\n" {
		t.Errorf("printed %q, want one hit passed", out)
	}
}

func TestStopStopsTheProcessUntilItIsContinued(t *testing.T) {
	cmd, out := child(t, "committed:1=stop")
	for deadline := time.Now().Add(30 * time.Second); ; {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) && time.Now().Before(deadline) {
			continue
		}
		if err != nil || pid != cmd.Process.Pid || !ws.Stopped() {
			t.Fatalf("wait: %v, status %v, want stopped", err, ws)
		}
		break
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if out.String() != "passed\npassed\npassed\n" {
		t.Errorf("printed %q, want three hits passed", out)
	}
}

func TestErrorIsACrashFromThatHitOn(t *testing.T) {
	in, err := FromEnv("taken:2=error")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, ErrCrash, ErrCrash} {
		if got := in(Taken); !errors.Is(got, want) {
			t.Errorf("hit %d: %v, want %v", i+1, got, want)
		}
	}
	if got := in(Committed); !errors.Is(got, ErrCrash) {
		t.Errorf("another window after the crash: %v, want %v", got, ErrCrash)
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	for spec, says := range map[string]string{
		"":                                  "want window:n=action",
		"committed":                         "want window:n=action",
		"committed=kill":                    "want window:n=action",
		"committed:1":                       "want window:n=action",
		"comitted:1=kill":                   `no window "comitted"`,
		"committed:0=kill":                  `"0" is not the number of a hit`,
		"committed:x=kill":                  `"x" is not the number of a hit`,
		"committed:*=kill":                  `"*" is not the number of a hit`,
		"committed:1=explode":               `no action "explode"`,
		"committed:1=kill,":                 "want window:n=action",
		"taken:1=kill, taken:2=kill":        `no window " taken"`,
		"committed:1=kill,committed:1=stop": "asked for twice",
	} {
		if _, err := FromEnv(spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("FromEnv(%q): %v, want an error that says %q", spec, err, says)
		}
	}
}

// A window that is added to fault.go must be one that can be asked for, and that the proofs visit.
func TestPointsAreAllOfThem(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[Point]bool{}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if name, ok := v.Type.(*ast.Ident); !ok || name.Name != "Point" {
				continue
			}
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared[Point(text)] = true
		}
	}
	for _, p := range Points() {
		if !declared[p] {
			t.Errorf("%s is not declared", p)
		}
		delete(declared, p)
	}
	for p := range declared {
		t.Errorf("%s is not among the points", p)
	}
}
