package pipeline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Set is what was loaded.
type Set struct {
	Store     *Store // nil: no file says
	Kafka     *Kafka // nil: no file says
	Pipelines []*Pipeline
	Findings  []Finding // in the order of the files
	Settings  []Setting // every value, and where it comes from
	Defaults  []Setting // what no file says, in words
	Fixtures  []string  // files with cases beside the pipelines: see Test
}

// Get returns a pipeline by name, or nil.
func (s *Set) Get(name string) *Pipeline {
	for _, p := range s.Pipelines {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Load reads files, and in folders every *.yaml and *.yml but the fixtures (*_test.yaml). It returns what it could read in
// any case; the error is a [*Refused] if anything is wrong that keeps it from running.
func Load(paths []string, env Env) (*Set, error) {
	set := &Set{}
	l := &linter{set: set}
	if len(paths) == 0 {
		set.Findings = append(set.Findings, Finding{Rule: "file", Severity: Fault, File: "-", Message: "no file is given",
			Hint: "name a file or a folder"})
	}
	seen := map[string]bool{}
	for _, given := range paths {
		files, fixtures, err := list(env.Files, given)
		if err != nil {
			set.Findings = append(set.Findings, unreadable(given, err))
		}
		if err == nil && len(files) == 0 {
			set.Findings = append(set.Findings, Finding{Rule: "file", Severity: Fault, File: given,
				Message: "there is no *.yaml in this folder"})
		}
		set.Fixtures = append(set.Fixtures, fixtures...)
		for _, name := range files {
			if seen[path.Clean(name)] {
				continue
			}
			seen[path.Clean(name)] = true
			content, err := read(env.Files, name)
			if err != nil {
				set.Findings = append(set.Findings, unreadable(name, err))
				continue
			}
			l.add(parseFile(name, content, env))
		}
	}
	l.override(l.overrides(env.Set))
	for _, f := range l.files {
		f.bind()
	}
	l.lint()
	for _, f := range l.files {
		set.Findings = append(set.Findings, f.b.masked()...)
		set.Settings = append(set.Settings, f.b.values...)
		set.Defaults = append(set.Defaults, f.b.defaults...)
	}
	set.Findings = sorted(set.Findings)
	return set, refused(set.Findings)
}

func refused(findings []Finding) error {
	if slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Fault }) {
		return &Refused{findings}
	}
	return nil
}

func unreadable(name string, err error) Finding {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	hint := ""
	if errors.Is(err, fs.ErrNotExist) {
		hint = "check the path; pawl init writes a file to begin with"
	}
	return Finding{Rule: "file", Severity: Fault, File: name, Message: fmt.Sprintf("cannot be read: %v", err), Hint: hint}
}

// list returns the files of a path, and the fixtures beside them.
func list(files fs.FS, name string) (pipelines, fixtures []string, err error) {
	if files == nil {
		return nil, nil, errors.New("Env.Files is not set")
	}
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, nil, err
	}
	folder := name
	if !info.IsDir() {
		folder = path.Dir(name)
	}
	entries, err := fs.ReadDir(files, folder)
	if err != nil && info.IsDir() {
		return nil, nil, err
	}
	for _, e := range entries {
		n := path.Join(folder, e.Name())
		ext := path.Ext(e.Name())
		switch base := strings.TrimSuffix(e.Name(), ext); {
		case e.IsDir() || strings.HasPrefix(base, ".") || ext != ".yaml" && ext != ".yml":
		case strings.HasSuffix(base, "_test"):
			// A file brings its own fixtures along: orders.yaml has orders_test.yaml.
			if info.IsDir() || base == strings.TrimSuffix(path.Base(name), path.Ext(name))+"_test" {
				fixtures = append(fixtures, n)
			}
		case info.IsDir():
			pipelines = append(pipelines, n)
		}
	}
	if !info.IsDir() {
		pipelines = []string{name}
	}
	return pipelines, fixtures, nil
}

func read(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// loaded is a file that was read, with the places of what is in it.
type loaded struct {
	File
	b      *binder
	root   *node             // nil: it cannot be read
	tables map[string]string // that its pipelines write, by name: which pipeline
}

func parseFile(name string, content []byte, env Env) *loaded {
	f := &loaded{b: &binder{source: &source{name: name}, env: env, places: map[string]span{}}}
	f.name = name
	f.root = f.b.parse(content)
	return f
}

func (f *loaded) bind() {
	if f.root != nil {
		f.b.bind(f.root, &f.File, "")
	}
}
