package secret_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/secret"
)

const canary = "canary-5f2a"

func TestASecretIsReadWhenItIsNeeded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PAWL_SECRET_TEST", "from the environment")
	file := secret.File(path)
	for _, c := range []struct {
		ref     secret.Ref
		content string
		want    string
	}{
		{file, "one\n", "one"},
		{file, "two\r\n\n", "two"}, // rotated
		{file, " three ", " three "},
		{secret.Env("PAWL_SECRET_TEST"), "", "from the environment"},
		{secret.Literal("in place"), "", "in place"},
		{secret.Func("vault", func(context.Context) (string, error) { return "fetched", nil }), "", "fetched"},
	} {
		write(c.content)
		if got, err := c.ref.Resolve(t.Context()); got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", c.ref, got, err, c.want)
		}
	}
}

func TestWhatCannotBeReadIsNamedByItsReference(t *testing.T) {
	dir := t.TempDir()
	large, empty := filepath.Join(dir, "large"), filepath.Join(dir, "empty")
	if err := os.WriteFile(large, []byte(strings.Repeat(canary, 1<<17)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ref  secret.Ref
		want string
	}{
		{secret.Env("PAWL_SECRET_NOT_SET"), "read secret ${env:PAWL_SECRET_NOT_SET}: the variable is not set"},
		{secret.File(dir + "/none"), "read secret ${file:" + dir + "/none}: no such file or directory"},
		{secret.File(dir), "read secret ${file:" + dir + "}: is a directory"},
		{secret.File(large), "read secret ${file:" + large + "}: the file is larger than 1048576 bytes"},
		{secret.File(empty), "read secret ${file:" + empty + "}: it is empty"},
		{secret.Literal(""), "read secret ***: it is empty"},
		{secret.Ref{}, "secret: no reference is set"},
	} {
		got, err := c.ref.Resolve(t.Context())
		if got != "" || err == nil || err.Error() != c.want {
			t.Errorf("%q, %v; want %s", got, err, c.want)
		}
	}
	if _, err := secret.File(dir + "/none").Resolve(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, shown string
		inline      bool
	}{
		{"${env:NAME}", "${env:NAME}", false},
		{"${file:/run/secrets/x y}", "${file:/run/secrets/x y}", false},
		{canary, "***", true},
		{"", "", false},
	} {
		ref, err := secret.Parse(c.text)
		if err != nil || ref.String() != c.shown || ref.Inline() != c.inline || ref.IsZero() != (c.text == "") {
			t.Errorf("%q is %v, inline %v, %v", c.text, ref, ref.Inline(), err)
		}
	}
	for _, text := range []string{"${evn:" + canary + "}", "${env:" + canary, "${env:}", "${env:" + canary + "}x"} {
		if ref, err := secret.Parse(text); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q is %v, %v", text, ref, err)
		}
	}
}

// Printing goes around String and Format where a field is not exported, hence the struct.
func TestASecretIsNotPrinted(t *testing.T) {
	type hidden struct {
		Open   secret.Ref
		closed secret.Ref
		list   []secret.Ref
		at     *secret.Ref
	}
	ref := secret.Literal(canary)
	h := hidden{ref, ref, []secret.Ref{ref}, &ref}
	var out bytes.Buffer
	for _, v := range []any{ref, &ref, h, &h, h.list, map[string]secret.Ref{"x": ref}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10.3v"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "v", v)
	}
	shown, err := json.Marshal(h)
	if err != nil || string(shown) != `{"Open":"***"}` {
		t.Errorf("%s, %v", shown, err)
	}
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprint([]byte(canary))} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%s is printed:\n%s", form, out.String())
		}
	}
}

func TestConfigurationIsWrittenAsItWasRead(t *testing.T) {
	var c struct{ Password secret.Ref }
	text := `{"Password":"${env:NAME}"}`
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(c); string(got) != text || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
