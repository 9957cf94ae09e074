package pawl_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pawlhq/pawl"

// The path of a record is visible in who may import whom. A rule here is a sentence of docs/design.md.
func TestImportDirections(t *testing.T) {
	production, _ := imports(t)
	owns := func(driver string, allowed ...string) {
		for pkg, list := range production {
			for _, imp := range list {
				if strings.HasPrefix(imp, driver) && !below(pkg, allowed...) {
					t.Errorf("%s imports %s: only %v may", pkg, imp, allowed)
				}
			}
		}
	}
	kits := []string{"pawltest", "storetest", "internal/pgtest", "internal/sqlitetest", "internal/kafkatest"}
	owns("github.com/twmb/franz-go", "kafka", "examples", "internal/kafkatest")
	owns("github.com/jackc/pgx", "postgres", "internal/pgtest")
	owns("modernc.org/sqlite", "sqlite", "examples")
	owns("github.com/go-json-experiment", "decode")
	owns("github.com/prometheus", "metrics", "examples", "cmd")
	owns("go.opentelemetry.io/otel", "tracing", "examples", "cmd")
	owns("go.opentelemetry.io/otel/sdk", "examples", "cmd") // which spans are kept is the program's decision
	owns("cel.dev", "pipeline")
	owns("github.com/goccy/go-yaml", "pipeline", "cmd")
	owns("github.com/spf13", "cmd")
	owns("testing", kits...)

	for pkg, list := range production {
		for _, imp := range list {
			inner, ours := strings.CutPrefix(imp, module+"/")
			switch {
			case pkg == "." && !ours && strings.Contains(strings.Split(imp, "/")[0], "."):
				t.Errorf("the root imports %s: it needs the standard library and small internals only", imp)
			case pkg == "." && ours && !below(inner, "internal"):
				t.Errorf("the root imports %s: implementations know the root, not the other way", inner)
			case below(pkg, kits...):
				// they may know everything
			case ours && below(inner, kits...):
				t.Errorf("%s imports the test kit %s", pkg, inner)
			case below(pkg, "kafka") && ours && !below(inner, "kafka", "secret", "internal"):
				t.Errorf("the source %s imports %s", pkg, inner)
			case below(pkg, "postgres", "sqlite") && ours && !below(inner, "secret", "internal"):
				t.Errorf("the store %s imports %s", pkg, inner)
			case below(pkg, "metrics", "tracing") && ours:
				t.Errorf("%s imports %s: observers know the root alone", pkg, inner)
			case below(pkg, "effect") && ours && !below(inner, "internal"):
				t.Errorf("%s imports %s: effects know the root alone, and no store", pkg, inner)
			case below(pkg, "secret") && ours:
				t.Errorf("%s imports %s: secrets know nothing of what uses them", pkg, inner)
			case below(pkg, "internal") && ours && !below(inner, "internal"):
				t.Errorf("%s imports %s: internals know nothing of what uses them", pkg, inner)
			}
		}
	}
}

func TestOnlyCommandsReadTheEnvironment(t *testing.T) {
	production, files := imports(t)
	for pkg := range production {
		// What a secret's reference names is read by one package, for everyone.
		if below(pkg, "examples", "scripts", "cmd", "secret", "internal/pgtest", "internal/sqlitetest", "internal/kafkatest") {
			continue
		}
		for _, f := range files[pkg] {
			for _, imp := range f.imports {
				if imp == "os" || imp == "flag" {
					t.Errorf("%s imports %s: only commands read flags, files and the environment", f.name, imp)
				}
			}
		}
	}
}

type goFile struct {
	name    string
	imports []string
}

// imports returns the imports of each package's production files, by folder, of this module only.
func imports(t *testing.T) (map[string][]string, map[string][]goFile) {
	t.Helper()
	all, files := map[string][]string{}, map[string][]goFile{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := fs.Stat(os.DirFS(name), "go.mod"); err == nil && name != "." {
				return filepath.SkipDir // another module
			}
			if (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(name))
		var list []string
		for _, imp := range f.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			list = append(list, p)
		}
		all[pkg] = append(all[pkg], list...)
		files[pkg] = append(files[pkg], goFile{name, list})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all["."]) == 0 || len(all["postgres"]) == 0 || len(all["kafka"]) == 0 || len(all["metrics"]) == 0 || len(all["tracing"]) == 0 {
		t.Fatal("no imports were found: the test looks in the wrong place")
	}
	return all, files
}

func below(pkg string, folders ...string) bool {
	for _, f := range folders {
		if pkg == f || strings.HasPrefix(pkg, f+"/") {
			return true
		}
	}
	return false
}
