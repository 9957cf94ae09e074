// Package sqlfile reads named queries and numbered migrations from embedded SQL files, so that SQL stays in SQL.
package sqlfile

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Queries reads every "-- name: x" block of the .sql files in dir. Comment lines stay out of what is sent. It panics on a
// malformed or repeated name: the files are part of the program.
func Queries(fsys fs.FS, dir string) map[string]string {
	files, err := fs.Glob(fsys, path.Join(dir, "*.sql"))
	if err != nil || len(files) == 0 {
		panic(fmt.Sprintf("sqlfile: no queries in %s: %v", dir, err))
	}
	out := map[string]string{}
	for _, f := range files {
		text, err := fs.ReadFile(fsys, f)
		if err != nil {
			panic(err)
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			trimmed := strings.TrimSpace(line)
			if n, ok := strings.CutPrefix(trimmed, "-- name:"); ok {
				if name = strings.TrimSpace(n); name == "" || out[name] != "" {
					panic(fmt.Sprintf("sqlfile: %s: name %q is empty or repeated", f, name))
				}
				continue
			}
			if name == "" || strings.HasPrefix(trimmed, "--") || trimmed == "" {
				continue
			}
			out[name] += line
		}
	}
	for name, q := range out {
		out[name] = strings.TrimSpace(q)
	}
	return out
}

// Migration is one numbered step of a schema. Once released it never changes.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations reads the files NNN_name.sql of dir in order. It panics on a gap: the files are part of the program.
func Migrations(fsys fs.FS, dir string) []Migration {
	files, err := fs.Glob(fsys, path.Join(dir, "*.sql"))
	if err != nil {
		panic(err)
	}
	slices.Sort(files)
	out := make([]Migration, 0, len(files))
	for i, f := range files {
		number, name, _ := strings.Cut(strings.TrimSuffix(path.Base(f), ".sql"), "_")
		v, err := strconv.Atoi(number)
		if err != nil || v != i+1 {
			panic(fmt.Sprintf("sqlfile: %s is not migration %d", f, i+1))
		}
		text, err := fs.ReadFile(fsys, f)
		if err != nil {
			panic(err)
		}
		out = append(out, Migration{v, name, string(text)})
	}
	return out
}
