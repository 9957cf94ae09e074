package pawl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Log lines are what operators search for: each is in docs/signals.md, and their keys are one vocabulary.
func TestLogLinesAreDocumentedAndShareTheirKeys(t *testing.T) {
	docs, err := os.ReadFile("docs/signals.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{
		"partition", "route", "offset", "next", "committed", "epoch", "records", "state", "halted", "cause", "class", "reason", "hint",
		"error", "retry_in", "to", "by", "why", "after", "names", "crashes", "topic", "was", "is", "instance", "brokers", "consumer",
		"seal", "acts", "hash",
	}
	lines := 0
	for _, dir := range []string{".", "kafka"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !logs(call.Fun) {
					return true
				}
				lines++
				if msg, ok := text(call.Args[0]); ok && !strings.Contains(string(docs), "| "+msg+" |") {
					t.Errorf("%s: docs/signals.md does not tell of %q", name, msg)
				}
				for i := 1; i < len(call.Args); i += 2 {
					if key, ok := text(call.Args[i]); ok && !slices.Contains(keys, key) {
						t.Errorf("%s: key %q: is there no other word for it?", name, key)
					}
				}
				return true
			})
		}
	}
	if lines < 20 {
		t.Errorf("%d log lines were found: the test looks in the wrong place", lines)
	}
}

// logs reports whether f is a method of a Logger, or a variable that holds one.
func logs(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name == "log" || f.Name == "warn"
	case *ast.SelectorExpr:
		of, ok := f.X.(*ast.SelectorExpr)
		return ok && of.Sel.Name == "Logger" && slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, f.Sel.Name)
	}
	return false
}

func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
