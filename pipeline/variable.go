package pipeline

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"strings"

	"github.com/pawlhq/pawl/secret"
)

// Env is what a file may see of the world around it.
type Env struct {
	// Files is where paths are opened. Names are passed on as they were given, also "../x" and "/x".
	Files fs.FS
	// Lookup returns a variable of the environment. Default: there are none.
	Lookup func(name string) (string, bool)
	// Offline makes a warning of a variable that is not set, and leaves it as it is written: to check or test a file away from
	// where it runs.
	Offline bool
	// Set are values that come before those of the files, each as path=value, such as pipelines.orders.limits.batch=100. A value
	// that begins with a quote or a bracket is YAML, any other is text. Later ones come before earlier ones.
	Set []string
}

func (e Env) lookup(name string) (string, bool) {
	if e.Lookup == nil {
		return "", false
	}
	return e.Lookup(name)
}

// part of a scalar: text, or a variable.
type part struct {
	text string // of text; of a variable, as it is written: ${NAME:-x}
	name string // of a variable
	file string // of ${file:…}
	op   string // ":-" or ":?" or ""
	word string // the default, or the message
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parts takes a scalar apart.
func parts(text string) ([]part, error) {
	var all []part
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			all = append(all, part{text: plain.String()})
			plain.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "$$"):
			plain.WriteByte('$')
			i++
		case strings.HasPrefix(text[i:], "${"):
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return nil, errors.New("a variable is not closed: write ${NAME}, or $$ for a dollar sign")
			}
			p, err := variable(text[i : i+end+1])
			if err != nil {
				return nil, err
			}
			flush()
			all = append(all, p)
			i += end
		default:
			plain.WriteByte(text[i])
		}
	}
	flush()
	return all, nil
}

func variable(text string) (part, error) {
	p := part{text: text}
	inner := text[2 : len(text)-1]
	if path, ok := strings.CutPrefix(inner, "file:"); ok {
		if p.file = path; path == "" {
			return p, errors.New("a file is written ${file:/path}")
		}
		return p, nil
	}
	inner = strings.TrimPrefix(inner, "env:") // as secret.Ref writes it
	p.name = inner
	if i := strings.IndexByte(inner, ':'); i >= 0 {
		if i+1 == len(inner) || inner[i+1] != '-' && inner[i+1] != '?' {
			return p, errors.New("a variable is written ${NAME}, ${NAME:-default}, ${NAME:?message} or ${file:/path}")
		}
		p.name, p.op, p.word = inner[:i], inner[i:i+2], inner[i+2:]
	}
	if !variableName.MatchString(p.name) {
		return p, errors.New("the name of a variable has letters, digits and _: write ${NAME}, or $$ for a dollar sign")
	}
	return p, nil
}

// value replaces one variable.
func (p part) value(env Env) (string, error) {
	if p.file != "" {
		return secret.File(p.file).Resolve(context.Background())
	}
	if p.name == "" {
		return p.text, nil
	}
	v, ok := env.lookup(p.name)
	switch {
	case ok && (v != "" || p.op == ""):
		return v, nil
	case p.op == ":-":
		return p.word, nil
	case p.op == ":?" && p.word != "":
		return "", &unset{p.name, ": " + p.word}
	}
	return "", &unset{p.name, ""}
}

// unset is a variable that is missing where the file is read, and may be there where it runs.
type unset struct{ name, why string }

func (e *unset) Error() string { return "the variable " + e.name + " is not set" + e.why }

// bareVariable is how shells write a variable, and files of pipelines do not.
var bareVariable = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)(:[0-9]+)?$`)

// expand replaces the variables of a scalar. It reports whether there were any.
func expand(text string, env Env) (expanded string, varies bool, err error) {
	if !strings.Contains(text, "$") {
		return text, false, nil
	}
	all, err := parts(text)
	if err != nil {
		return "", true, err
	}
	var b strings.Builder
	for _, p := range all {
		v, err := p.value(env)
		if err != nil {
			return "", true, err
		}
		varies = varies || p.name != "" || p.file != ""
		b.WriteString(v)
	}
	return b.String(), varies, nil
}

// reference makes a secret of a scalar: it is read when it is needed, and prints as what was written, if that is a variable.
func reference(text string, env Env) (secret.Ref, error) {
	all, err := parts(text)
	if err != nil {
		return secret.Ref{}, err
	}
	// What is shown has the variables, and nothing of what is around them or in their defaults: that may be the password.
	name, varies := "", false
	for _, p := range all {
		switch {
		case p.file != "":
			name, varies = name+p.text, true
		case p.name != "":
			name, varies = name+"${"+p.name+"}", true
		default:
			name += "…"
		}
	}
	if !varies {
		v, _, err := expand(text, env)
		return secret.Literal(v), err
	}
	read := func(context.Context) (string, error) {
		var b strings.Builder
		for _, p := range all {
			v, err := p.value(env)
			if err != nil {
				return "", err
			}
			b.WriteString(v)
		}
		return b.String(), nil
	}
	return secret.Func(name, read), nil
}
