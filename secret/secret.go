// Package secret names secrets instead of holding them.
//
// A [Ref] says where a secret is kept. It is read each time it is needed, so that one that was rotated is picked up without
// a restart, and it prints as its name: in logs, errors, dumps and configuration that is written out, the value is not to be
// found.
package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
)

// Ref is where a secret is kept. The zero Ref names none.
//
// The value itself is never a field: printing a struct with unexported fields goes past String and Format, and shows what
// is in them. Behind a func there is nothing to show.
type Ref struct {
	name string
	read func(ctx context.Context) (string, error)
}

// maxSize bounds what is read from a file: a key with a chain of certificates is a few KiB.
const maxSize = 1 << 20

// Env is the secret in an environment variable, ${env:NAME}.
func Env(name string) Ref {
	return Ref{"${env:" + name + "}", func(context.Context) (string, error) {
		value, ok := os.LookupEnv(name)
		if !ok {
			return "", errors.New("the variable is not set")
		}
		return value, nil
	}}
}

// File is the secret in a file, ${file:/path}. Line ends at its end are not part of it: editors and echo leave one there.
func File(path string) Ref {
	return Ref{"${file:" + path + "}", func(context.Context) (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", reason(err)
		}
		defer f.Close()
		content, err := io.ReadAll(io.LimitReader(f, maxSize+1))
		if err != nil {
			return "", reason(err)
		}
		if len(content) > maxSize {
			return "", fmt.Errorf("the file is larger than %d bytes", maxSize)
		}
		return strings.TrimRight(string(content), "\r\n"), nil
	}}
}

// Func is a secret that read fetches, from a vault for instance. It is shown by name.
func Func(name string, read func(ctx context.Context) (string, error)) Ref { return Ref{name, read} }

// Literal is a secret that is known already: for tests, and for values that were made in this process. It prints as "***".
func Literal(value string) Ref {
	return Ref{redacted, func(context.Context) (string, error) { return value, nil }}
}

const redacted = "***"

var reference = regexp.MustCompile(`^\$\{(env|file):([^{}]+)\}$`)

// Parse reads ${env:NAME} or ${file:/path}. Any other text is taken for a secret that was written down in place: it is a
// [Literal], of which [Ref.Inline] tells. Text that looks like a reference and is none is an error, which does not repeat
// the text.
func Parse(text string) (Ref, error) {
	m := reference.FindStringSubmatch(text)
	switch {
	case text == "":
		return Ref{}, nil
	case m == nil && strings.HasPrefix(text, "${"):
		return Ref{}, errors.New("secret: a reference is written ${env:NAME} or ${file:/path}")
	case m == nil:
		return Literal(text), nil
	case m[1] == "env":
		return Env(m[2]), nil
	}
	return File(m[2]), nil
}

// Resolve reads the secret. An error names the reference, never the content; an empty secret is an error.
func (r Ref) Resolve(ctx context.Context) (string, error) {
	if r.read == nil {
		return "", errors.New("secret: no reference is set")
	}
	value, err := r.read(ctx)
	if err == nil && value == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", &Error{r, err}
	}
	return value, nil
}

// IsZero reports whether r names no secret.
func (r Ref) IsZero() bool { return r.read == nil }

// Inline reports whether the secret was written down in place, where it should have been named.
func (r Ref) Inline() bool { return r.read != nil && r.name == redacted }

// String returns the reference, or "***" for a secret that has none.
func (r Ref) String() string { return r.name }

// Format implements fmt.Formatter: whatever the verb, it is String.
func (r Ref) Format(f fmt.State, _ rune) { io.WriteString(f, r.String()) }

// LogValue implements slog.LogValuer.
func (r Ref) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use too.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with [Parse].
func (r *Ref) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*r = parsed
	}
	return err
}

// Error is a secret that could not be read: someone has to put it there, or to permit reading it.
type Error struct {
	Ref Ref
	Err error
}

func (e *Error) Error() string { return "read secret " + e.Ref.String() + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// reason is what a file's error says besides the path, which the reference has.
func reason(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}
