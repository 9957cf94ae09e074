package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// What is read back is what was written, whatever it looks like, and no byte of it steers a terminal.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	for _, doc := range []string{
		`{"a":1,"b":[],"c":{},"d":null,"e":[1,[2,3],{"x":{"y":[{}]}}],"f":true}`,
		`{"big":9007199254740993,"text":"9007199254740993","oct":"0o7","hex":"0x1f","exp":"1e3","no":"no","y":"y","n":"N","tilde":"~","empty":"","space":" a ","dash":"- a","q":"a: b","h":"a #b","nl":"a\nb","quote":"\"x\": 1"}`,
		`{"a b":{"c: d":[{"- e":"?"}]},"":1,"date":"2026-01-01","null":"null","@":"@x","%":"%x","[":"[x","&":"&x","*":"*x","!":"!x","|":"|"}`,
		"{\"esc\":\"a\\u001b[31m\u009b\u202e\u200b\u2028\U000e0001é漢\"}",
	} {
		text, err := asYAML([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		dec := json.NewDecoder(strings.NewReader(doc))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if a, b := canonical(t, got), canonical(t, want); !bytes.Equal(a, b) {
			t.Errorf("\n%s\nis %s\nwant %s", text, a, b)
		}
		if printable(text) != text {
			t.Errorf("%q is not all printable", text)
		}
	}
}

func canonical(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJSONIsEscapedAndMeansTheSame(t *testing.T) {
	in := map[string]string{"a": "x\u009b\u202e\U000e0001\u007fé\n\x1b"}
	var out bytes.Buffer
	a := newApp(nil, &out, os.Stderr)
	a.format = formatJSONL
	if err := a.printDocument("X", in); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if printable(text) != text {
		t.Errorf("%q", text)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || !reflect.DeepEqual(got["a"], in["a"]) {
		t.Errorf("%q %v", got["a"], err)
	}
}

func TestDifferencesAreExact(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{`{"a":1,"b":{"c":[1,2]}}`, `{"b":{"c":[1,3]},"a":1}`, "$.b.c[1]: 2 → 3"},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`, "$.n: 9007199254740993 → 9007199254740992"},
		{`{"a":1}`, `{"b":1}`, "$.a: 1 → (none)\n$.b: (none) → 1"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "$.a: [1] → [1,2]"},
		{`{"a":null}`, `{"a":null}`, ""},
		{`[]`, `{}`, "$: [] → {}"},
	} {
		found, ok := differences([]byte(c.before), []byte(c.after))
		var lines []string
		for _, f := range found {
			lines = append(lines, f.String())
		}
		if got := strings.Join(lines, "\n"); !ok || got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.before, c.after, got, c.want)
		}
	}
	if _, ok := differences([]byte("not json"), []byte("{}")); ok {
		t.Error("not JSON has differences")
	}
}
