package pipeline

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/secret"
)

// binder reads nodes into Go values, by the tags of their fields, and goes on after a fault: all of a file are found at once.
//
//	yaml  the key; "-": none
//	need  "yes": it must be there
//	enum  what it may be, separated by |
//	doc   what it means, for the schema
type binder struct {
	*source
	env    Env
	places map[string]span // by path

	values, defaults []Setting
}

// span is where a key and its value are.
type span struct{ key, value place }

// Setting is one value of a file, and where it comes from.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"`  // what is secret is shown as its variable, or "***"
	Origin string `json:"origin"` // file:line, and the variable that was used; --set; or default
}

// setting notes a value.
func (b *binder) setting(path, shown string, n *node, variable string) {
	origin := b.name + ":" + strconv.Itoa(n.at.line)
	if n.at.from != "" {
		origin = "--set"
	}
	b.values = append(b.values, Setting{path, shown, origin + variable})
}

// unsaid notes what a key means that is not there, and what is below it.
func (b *binder) unsaid(f field, path string) {
	if _, def, ok := strings.Cut(f.doc, "Default: "); ok {
		b.defaults = append(b.defaults, Setting{path, strings.TrimSuffix(def, "."), "default"})
	}
	if _, own := reflect.New(f.typ).Interface().(binds); f.typ.Kind() == reflect.Struct && !own && f.typ != reflect.TypeFor[secret.Ref]() {
		for _, inner := range fieldsOf(f.typ) {
			b.unsaid(inner, join(path, inner.key))
		}
	}
}

// mark notes where something is: a mapping is where its key is.
func (b *binder) mark(path string, key place, value *node) {
	at := value.at
	if value.kind == mappingNode {
		at = key
	}
	b.places[path] = span{key, at}
}

// name is the last part of a path.
func name(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[i+1:]
	}
	if path == "" {
		return "the file"
	}
	return path
}

func (b *binder) mapping(n *node, path string, keys ...string) bool {
	if n.kind != mappingNode && !n.unread {
		hint := name(path) + ": {name: …}"
		if len(keys) > 0 {
			hint = name(path) + ": {" + keys[0] + ": …}; its keys are " + strings.Join(keys, ", ")
		}
		if path == "" {
			hint = "version: 1, and below it pipelines:"
		}
		b.fault("type", n.at, path, "write "+hint, "%s must be a mapping, and is %s", name(path), n.kind)
		if guarded(path) {
			b.hide(n)
		}
	}
	return n.kind == mappingNode
}

// word is text for what is no expression: there $NAME is a variable without its braces.
func (b *binder) word(n *node, path string) (string, bool) {
	b.bare(n, path)
	return b.text(n, path)
}

func (b *binder) bare(n *node, path string) {
	if m := bareVariable.FindStringSubmatch(n.text); n.kind == scalarNode && m != nil {
		b.fault("variable", n.at, path, "write ${"+m[1]+"}"+m[2]+"; or $$"+m[1]+", if it is to have a dollar sign", "$%s is no variable without braces", m[1])
	}
}

// text reads a scalar, with its variables replaced.
func (b *binder) text(n *node, path string) (string, bool) {
	if n.kind != scalarNode {
		hint := ""
		switch n.kind {
		case mappingNode:
			hint = "put it in quotes, if it is a text that has braces or a colon in it"
		case listNode:
			hint = "write one value, without brackets; or put it in quotes, if it is a text that has brackets in it"
		}
		if !n.unread {
			b.fault("type", n.at, path, hint, "%s must be a text, and is %s", name(path), n.kind)
		}
		return "", false
	}
	text, varies, err := expand(n.text, b.env)
	shown, origin := text, ""
	switch unset := (*unset)(nil); {
	case errors.As(err, &unset) && b.env.Offline:
		b.report(Warning, "variable", n.at, path, "nothing is wrong with that here; where the file runs, it must be set", "%v", err)
		text, shown = n.text, n.text
	case err != nil && unset == nil:
		b.fault("variable", n.at, path, "write ${NAME}, ${NAME:-default}, ${NAME:?message} or ${file:/path}, and $$ for a dollar sign", "%v", err)
		return "", false
	case err != nil:
		b.fault("variable", n.at, path, "set the variable, or give a default: ${NAME:-default}", "%v", err)
		return "", false
	case varies:
		origin = " " + n.text
		if strings.Contains(n.text, "${file:") { // files are for what is not to be seen
			shown = n.text
		}
	}
	if text == "" {
		b.fault("type", n.at, path, "give it a value, or remove it", "%s is empty", name(path))
		return "", false
	}
	b.setting(path, shown, n, origin)
	return text, true
}

func (b *binder) oneOf(n *node, path, text string, words []string) bool {
	if slices.Contains(words, text) {
		return true
	}
	hint := ""
	if w := nearest(text, words); w != "" {
		hint = "did you mean " + w + "?"
	}
	shown := text
	if strings.Contains(n.text, "$") {
		shown = n.text
	}
	if len(words) == 1 {
		b.fault("value", n.at, path, "write "+words[0], "%s is %q: only %s is known", name(path), clip(shown, 60), words[0])
		return false
	}
	b.fault("value", n.at, path, hint, "%s is %q: it is one of %s", name(path), clip(shown, 60), strings.Join(words, ", "))
	return false
}

// bind reads a mapping into the struct that v points to.
func (b *binder) bind(n *node, v any, path string) {
	if s, ok := v.(binds); ok {
		s.bind(b, n, path)
		return
	}
	b.fields(n, v, path)
}

func (b *binder) fields(n *node, v any, path string) {
	if n.kind == nullNode { // an empty mapping
		n = &node{kind: mappingNode, at: n.at}
	}
	rv := reflect.ValueOf(v).Elem()
	if !b.mapping(n, path, words(rv.Type())...) {
		return
	}
	known := map[string]bool{}
	for _, f := range fieldsOf(rv.Type()) {
		known[f.key] = true
		item := n.get(f.key)
		if item == nil {
			if f.need && !n.unread {
				b.missing(n, path, f)
			}
			b.unsaid(f, join(path, f.key))
			continue
		}
		at := join(path, f.key)
		b.mark(at, b.keyPlace(n, f.key), item)
		if item.kind == nullNode && !item.unread && !nullable(f.typ) {
			b.fault("type", item.at, at, f.doc, "%s is empty", f.key)
			continue
		}
		b.value(item, rv.FieldByIndex(f.index), at, f)
	}
	for i, k := range n.keys {
		if !known[k.name] {
			b.unknown(k, path, rv.Type())
			if guarded(path) {
				b.hide(n.items[i])
			}
		}
	}
}

// nullable reports whether a key that has nothing behind it means something: a mapping that is empty.
func nullable(t reflect.Type) bool {
	if t == reflect.TypeFor[secret.Ref]() || t.Implements(reflect.TypeFor[binds]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[binds]()) {
		return t.Kind() != reflect.Struct // Expr and the like are text; those that are lists or mappings speak for themselves
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer
}

// words are the keys of a struct.
func words(t reflect.Type) []string {
	var all []string
	for _, f := range fieldsOf(t) {
		all = append(all, f.key)
	}
	return all
}

func (b *binder) keyPlace(n *node, name string) place {
	for _, k := range n.keys {
		if k.name == name {
			return k.at
		}
	}
	return n.at
}

func (b *binder) missing(n *node, path string, f field) {
	at := n.at
	if w, ok := b.places[path]; ok {
		at = w.key
	}
	rule, hint := "required", "add "+f.key+". "+f.doc
	if len(f.enum) == 1 {
		hint = "add " + f.key + ": " + f.enum[0]
	}
	if f.key == "once_per" {
		rule = "once-per"
	}
	b.fault(rule, at, path, hint, "%s is missing in %s", f.key, name(path))
}

const (
	whyAutoCommit = "offsets are committed by Pawl, after the effects: with auto-commit what was read and not applied would be lost"
	whyReset      = "a position that is lost must not be guessed: records would be skipped. Where a new pipeline begins is start:"
	whyTLS        = "a certificate that is not checked protects from nobody: give the authority as tls.ca"
)

// refusedKeys are keys that people know from elsewhere, and that would undo what Pawl is for.
var refusedKeys = map[string]struct{ rule, why string }{
	"enable.auto.commit":   {"auto-commit", whyAutoCommit},
	"enable_auto_commit":   {"auto-commit", whyAutoCommit},
	"auto_commit":          {"auto-commit", whyAutoCommit},
	"auto.offset.reset":    {"offset-reset", whyReset},
	"auto_offset_reset":    {"offset-reset", whyReset},
	"synchronous_commit":   {"async-commit", "a commit that the database may lose must not be followed by an offset: leave synchronous_commit on"},
	"insecure_skip_verify": {"insecure-tls", whyTLS},
	"insecureSkipVerify":   {"insecure-tls", whyTLS},
	"default_once_per":     {"once-per", "once_per has no default: only the owner of the events knows what is the same"},
	"exactly_once":         {"unknown-key", "every pipeline is; what it is counted by is once_per"},
	"max.poll.interval.ms": {"unknown-key", "polling goes on while effects are applied: there is nothing to set"},
	"isolation.level":      {"unknown-key", "records of open and aborted transactions are never read: there is nothing to set"},
	"username":             {"unknown-key", "write user"},
	"topics":               {"unknown-key", "write topic, with a name or a list of names"},
	"name":                 {"unknown-key", "the name is the key that the pipeline is under"},
	"key":                  {"unknown-key", "write once_per"},
	"group_id":             {"unknown-key", "write group"},
	"group.id":             {"unknown-key", "write group"},
	"dsn":                  {"unknown-key", "write postgres or sqlite"},
	"url":                  {"unknown-key", "write postgres or sqlite"},
	"group.instance.id":    {"unknown-key", "write instance"},
	"bootstrap.servers":    {"unknown-key", "write brokers"},
	"security.protocol":    {"unknown-key", "write tls: {} for TLS, and sasl for a login"},
	"transactional.id":     {"unknown-key", "effects are in the database's transaction: there is nothing to set"},
	"idempotency_key":      {"unknown-key", "write once_per"},
	"dead_letter_topic":    {"unknown-key", "records that are set aside are kept whole in the store: see quarantine"},
	"on_poison":            {"unknown-key", "write on: {poison: …}"},
	"dedupe":               {"unknown-key", "write once_per"},
}

func (b *binder) unknown(k key, path string, t reflect.Type) {
	if b.full() {
		return
	}
	at := join(path, k.name)
	if r, ok := refusedKeys[k.name]; ok && nearest(k.name, words(t)) == "" {
		b.fault(r.rule, k.at, at, r.why, "%s is no key of %s", k.name, name(path))
		return
	}
	known := words(t)
	hint := "known are " + strings.Join(known, ", ")
	if w := nearest(k.name, known); w != "" {
		hint = "did you mean " + w + "?"
	}
	b.fault("unknown-key", k.at, at, hint, "%q is no key of %s", clip(k.name, 60), name(path))
}

func (b *binder) value(n *node, v reflect.Value, path string, f field) {
	if s, ok := v.Addr().Interface().(binds); ok {
		s.bind(b, n, path)
		return
	}
	switch v.Interface().(type) {
	case secret.Ref:
		v.Set(reflect.ValueOf(b.secretRef(n, path)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if text, ok := b.word(n, path); ok && (f.enum == nil || b.special(n, path, text) || b.oneOf(n, path, text, f.enum)) {
			v.SetString(text)
		}
	case reflect.Int:
		if text, ok := b.text(n, path); ok {
			i, err := strconv.Atoi(text)
			if err != nil || i < 1 {
				b.fault("type", n.at, path, "write digits alone, such as 100", "%s must be a whole number from 1 on", name(path))
			} else if f.enum == nil || b.oneOf(n, path, text, f.enum) {
				v.SetInt(int64(i))
			}
		}
	case reflect.Bool:
		if text, ok := b.text(n, path); ok {
			if text != "true" && text != "false" {
				b.fault("type", n.at, path, "write true or false", "%s is true or false", name(path))
			}
			v.SetBool(text == "true")
		}
	case reflect.Slice:
		if n.kind != listNode {
			b.fault("type", n.at, path, "write ["+clip(n.text, 40)+"]", "%s must be a list, and is %s", name(path), n.kind)
			return
		}
		if len(n.items) == 0 && f.need {
			b.fault("required", n.at, path, f.doc, "%s is empty", name(path))
		}
		for i, item := range n.items {
			at := path + "[" + strconv.Itoa(i) + "]"
			b.mark(at, item.at, item)
			if text, ok := b.word(item, at); ok && (f.enum == nil || b.oneOf(item, at, text, f.enum)) {
				v.Set(reflect.Append(v, reflect.ValueOf(text)))
			}
		}
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String { // it may be empty, and has no variables
			if n.kind != scalarNode {
				b.fault("type", n.at, path, "", "%s must be a text, and is %s", name(path), n.kind)
				return
			}
			text := n.text
			v.Set(reflect.ValueOf(&text))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		b.bind(n, v.Interface(), path)
	case reflect.Struct:
		b.bind(n, v.Addr().Interface(), path)
	default:
		panic("pipeline: a field of type " + v.Type().String())
	}
}

// special refuses a value with a reason of its own.
func (b *binder) special(n *node, path, text string) bool {
	if name(path) == "start" && (text == "latest" || text == "end") {
		b.fault("offset-reset", n.at, path, "write earliest, or committed to go on where another consumer stopped",
			"start: %s would skip what is in the topic already", text)
		return true
	}
	return false
}

// field is a key of a mapping.
type field struct {
	key   string
	index []int
	need  bool
	enum  []string
	doc   string
	typ   reflect.Type
}

// fieldsOf lists the keys of a struct, in order.
func fieldsOf(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		sf := t.Field(i)
		key := sf.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		f := field{key: key, index: sf.Index, need: sf.Tag.Get("need") == "yes", doc: sf.Tag.Get("doc"), typ: sf.Type}
		if e := sf.Tag.Get("enum"); e != "" {
			f.enum = strings.Split(e, "|")
		}
		all = append(all, f)
	}
	return all
}
