package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// asYAML writes a JSON document as YAML, in its order: numbers as they are written, and texts in the quotes of JSON, which are
// YAML's too, wherever they could be taken for something else or hold what steers terminals.
func asYAML(doc []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	lines, err := yamlLines(dec)
	return strings.Join(lines, "\n") + "\n", err
}

// yamlLines are the lines of the next value. A single one is a value that fits behind its key.
func yamlLines(dec *json.Decoder) (lines []string, err error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return []string{yamlScalar(token)}, nil
	}
	for dec.More() {
		lead := "-"
		if delim == '{' {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			lead = yamlScalar(name) + ":"
		}
		inner, own, err := yamlInner(dec)
		switch {
		case err != nil:
			return nil, err
		case !own:
			lines = append(lines, lead+" "+inner[0])
		case delim == '[':
			lines = append(lines, "- "+inner[0])
			lines = append(lines, indent(inner[1:])...)
		default:
			if !strings.HasPrefix(inner[0], "- ") { // a list is as far to the right as its key
				inner = indent(inner)
			}
			lines = append(append(lines, lead), inner...)
		}
	}
	if len(lines) == 0 {
		lines = []string{map[json.Delim]string{'{': "{}", '[': "[]"}[delim]}
	}
	_, err = dec.Token()
	return lines, err
}

// yamlInner is yamlLines, and whether the value is a mapping or a list with lines of its own.
func yamlInner(dec *json.Decoder) (lines []string, own bool, err error) {
	lines, err = yamlLines(dec)
	own = err == nil && (len(lines) > 1 || strings.HasPrefix(lines[0], "- ") || yamlKey.MatchString(lines[0]))
	return lines, own, err
}

// yamlKey is a line of a mapping. No text of one line looks like it: one with a colon is in quotes.
var yamlKey = regexp.MustCompile(`^("(\\.|[^"\\])*"|[^"]*):( |$)`)

func indent(lines []string) []string {
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

var (
	plainYAML = regexp.MustCompile(`^[A-Za-z_/]([A-Za-z0-9_/.@ +-]*[A-Za-z0-9_/.@+-])?$`)
	wordsYAML = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
)

func yamlScalar(token json.Token) string {
	text, ok := token.(string)
	switch {
	case token == nil:
		return "null"
	case !ok:
		return fmt.Sprint(token)
	case plainYAML.MatchString(text) && !slices.Contains(wordsYAML, strings.ToLower(text)):
		return text
	}
	return escapeControls(string(encode(text)))
}
