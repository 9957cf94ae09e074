package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// override is a value that is given beside the files, and comes before theirs: pipelines.orders.limits.batch=100.
type override struct {
	path  string
	value *node
}

// overrides reads Env.Set.
func (l *linter) overrides(given []string) (all []override) {
	for _, text := range given {
		path, value, ok := strings.Cut(text, "=")
		bad := func(format string, args ...any) {
			l.set.Findings = append(l.set.Findings, Finding{Rule: "override", Severity: Fault, File: setName(path),
				Message: fmt.Sprintf(format, args...), Hint: "write --set pipelines.orders.limits.batch=100"})
		}
		if path = strings.TrimSpace(path); !ok || path == "" {
			bad("this is no path=value")
			continue
		}
		s := &source{name: setName(path)}
		var n *node
		switch strings.TrimSpace(value) {
		case "":
			n = &node{kind: scalarNode, literal: true}
		default:
			if strings.ContainsAny(strings.TrimSpace(value)[:1], "[{\"'") {
				n = s.parse([]byte(value))
			} else { // as it is: a shell has taken the quotes that YAML would want
				n = &node{kind: scalarNode, text: value}
			}
		}
		if n == nil || len(s.findings) > 0 {
			bad("the value is not YAML that can be read") // and nothing of it: it may be a password
			continue
		}
		n.moveTo(place{from: setName(path)})
		all = append(all, override{path, n})
	}
	return all
}

func setName(path string) string { return "--set " + path }

// moveTo says where a node, and all that is in it, comes from.
func (n *node) moveTo(at place) {
	n.at = at
	for i := range n.keys {
		n.keys[i].at = at
	}
	for _, item := range n.items {
		item.moveTo(at)
	}
}

// override puts values that are given beside the files in their place, later ones over earlier ones.
func (l *linter) override(all []override) {
	for _, o := range all {
		f, err := l.home(o.path)
		if other := otherStore[o.path]; err == nil && other != "" {
			f.root.drop("store", other) // there is one store: naming another takes its place
		}
		if err == nil {
			err = f.root.put(o.path, o.value)
		}
		if err != nil {
			l.set.Findings = append(l.set.Findings, Finding{Rule: "override", Severity: Fault, File: setName(o.path), Path: o.path, Message: err.Error()})
		}
	}
}

var otherStore = map[string]string{"store.sqlite": "postgres", "store.postgres": "sqlite"}

// drop takes a key out of a mapping within a mapping.
func (n *node) drop(section, name string) {
	if at := n.get(section); at != nil {
		if i := slices.IndexFunc(at.keys, func(k key) bool { return k.name == name }); i >= 0 {
			at.keys, at.items = slices.Delete(at.keys, i, i+1), slices.Delete(at.items, i, i+1)
		}
	}
}

// home is the file that a path belongs to: the one that has the pipeline or the section, or else the first.
func (l *linter) home(path string) (*loaded, error) {
	var first *loaded
	var names []string
	section, rest, _ := strings.Cut(path, ".")
	for _, f := range l.files {
		if f.root == nil || f.root.kind != mappingNode {
			continue
		}
		if first == nil {
			first = f
		}
		at := f.root.get(section)
		if section != "pipelines" && at != nil {
			return f, nil
		}
		if section == "pipelines" && at != nil {
			if _, ok := at.longest(rest); ok {
				return f, nil
			}
			for _, k := range at.keys {
				names = append(names, k.name)
			}
		}
	}
	switch {
	case first == nil:
		return nil, errors.New("there is no file that it could be put into")
	case section == "pipelines":
		return nil, fmt.Errorf("there is no such pipeline; there are: %s", strings.Join(names, ", "))
	}
	return first, nil
}

// longest is the key of a mapping that a path begins with: names may have dots in them.
func (n *node) longest(path string) (name string, ok bool) {
	for _, k := range n.keys {
		if (path == k.name || strings.HasPrefix(path, k.name+".") || strings.HasPrefix(path, k.name+"[")) && len(k.name) >= len(name) {
			name, ok = k.name, true
		}
	}
	return name, ok
}

// put sets what is at a path. Mappings that are missing on the way are made; elements of lists must be there.
func (n *node) put(path string, value *node) error {
	if index, rest, ok := element(path); ok {
		if n.kind != listNode || index >= len(n.items) {
			return fmt.Errorf("there is no element %d", index)
		}
		if rest == "" {
			n.items[index] = value
			return nil
		}
		return n.items[index].put(rest, value)
	}
	if n.kind == nullNode {
		n.kind = mappingNode
	}
	if n.kind != mappingNode {
		return fmt.Errorf("%s is below what is %s", path, n.kind)
	}
	name, ok := n.longest(path)
	if !ok {
		name, _, _ = strings.Cut(path, ".")
		name, _, _ = strings.Cut(name, "[")
		n.keys = append(n.keys, key{name, value.at})
		n.items = append(n.items, &node{kind: nullNode, at: value.at})
	}
	i := slices.IndexFunc(n.keys, func(k key) bool { return k.name == name })
	rest := strings.TrimPrefix(path[len(name):], ".")
	if rest == "" {
		n.keys[i].at, n.items[i] = value.at, value
		return nil
	}
	return n.items[i].put(rest, value)
}

// element takes [3].rest apart.
func element(path string) (index int, rest string, ok bool) {
	if !strings.HasPrefix(path, "[") {
		return 0, "", false
	}
	number, rest, ok := strings.Cut(path[1:], "]")
	index, err := strconv.Atoi(number)
	return index, strings.TrimPrefix(rest, "."), ok && err == nil && index >= 0
}
