package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"
)

// Bounds of one expression: of its text, and of what one evaluation may cost, in CEL's own units. A condition costs about
// ten.
const (
	maxExprBytes = 4096
	maxExprDepth = 64
	maxCost      = 100_000
)

// base is CEL as it is here, without variables. Making it takes a millisecond, so it is made once.
var base = sync.OnceValues(func() (*cel.Env, error) {
	var without []*env.Function
	for _, name := range excluded {
		without = append(without, env.NewFunction(name))
	}
	opts := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: without})),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(0)),
		cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}),
		cel.ParserExpressionSizeLimit(maxExprBytes),
		cel.ParserRecursionLimit(maxExprDepth),
		cel.Function("truncate", cel.Overload("truncate_timestamp_duration",
			[]*cel.Type{cel.TimestampType, cel.DurationType}, cel.TimestampType,
			cel.BinaryBinding(truncate))),
	}
	return cel.NewCustomEnv(slices.Concat(opts, operators(), texts())...)
})

// truncate rounds a time down to a multiple of a duration, in UTC: the bucket that it is in.
func truncate(t, d ref.Val) ref.Val {
	at, ok := t.(types.Timestamp)
	every, also := d.(types.Duration)
	if !ok || !also {
		return types.MaybeNoSuchOverloadErr(t)
	}
	if every.Duration <= 0 {
		return types.NewErr("truncate: the duration is not positive")
	}
	return types.Timestamp{Time: at.Time.UTC().Truncate(every.Duration)}
}

// adapter shows documents to CEL with their numbers exact.
type adapter struct{ types.Adapter }

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case json.Number:
		n, err := number(v)
		if err != nil {
			return types.WrapErr(err)
		}
		return a.NativeToValue(n)
	case decimal:
		return v
	case string:
		return types.String(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case float32, float64, types.Double:
		return types.NewErr("floats are not exact")
	}
	return a.Adapter.NativeToValue(v)
}

// sizes makes a call cost what its result is long. CEL knows that of its own operators, and only where types are known.
type sizes struct{}

func (sizes) CallCost(_, _ string, _ []ref.Val, result ref.Val) *uint64 {
	n := uint64(0)
	switch v := result.(type) {
	case types.String:
		n = uint64(len(v)) / 10
	case types.Bytes:
		n = uint64(len(v)) / 10
	case decimal:
		n = uint64(v.d.NumDigits()) / 10
	case traits.Lister:
		if size, ok := v.Size().(types.Int); ok {
			n = uint64(size)
		}
	default:
		return nil // as CEL counts it
	}
	n++
	return &n
}

// celError is what is wrong with an expression, and where in it.
type celError struct {
	message, hint string
	line, col     int // from 1
}

func (e *celError) Error() string { return e.message }

// compileCEL compiles what is no plain path.
func compileCEL(text string, sc scope) (*program, error) {
	if len(text) > maxExprBytes {
		return nil, fmt.Errorf("the expression has %d bytes; at most %d are read", len(text), maxExprBytes)
	}
	b, err := base()
	if err != nil {
		return nil, err
	}
	var vars []cel.EnvOption
	for name, kind := range sc {
		if name == "$" {
			name = "_"
		}
		vars = append(vars, cel.Variable(name, celTypes[kind]))
	}
	e, err := b.Extend(vars...)
	if err != nil {
		return nil, err
	}
	checked, issues := e.Compile(dollars(text))
	if issues.Err() != nil {
		return nil, celIssue(issues, sc, text)
	}
	rep := checked.NativeRep()
	if err := noFloats(rep); err != nil {
		return nil, err
	}
	p := &program{text: text, uses: map[string]bool{}}
	for _, r := range rep.ReferenceMap() {
		if name := strings.TrimPrefix(r.Name, "."); name == "_" {
			p.uses["$"] = true
		} else if _, ok := sc[name]; ok {
			p.uses[name] = true
		}
	}
	p.kind, p.optional = kindOf(checked.OutputType())
	prog, err := e.Program(checked, cel.CostTracking(sizes{}), cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize), patterns())
	if err != nil {
		return nil, err
	}
	p.eval = func(in *input) (any, error) {
		v, _, err := prog.Eval(activation{in})
		if err != nil {
			return nil, errors.New(strings.ReplaceAll(err.Error(), "no such attribute(s): ", "there is no "))
		}
		return native(v, 0)
	}
	return p, nil
}

// dollars writes _ for $, which CEL has no word for, outside of texts: places stay the same.
func dollars(text string) string {
	out := []byte(text)
	var quote byte
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '$':
			out[i] = '_'
		}
	}
	return string(out)
}

var (
	undeclared = regexp.MustCompile(`undeclared reference to '([^']*)'`)
	container  = strings.NewReplacer(" (in container '')", "", "'_'", "'$'", "'_.", "'$.")
)

func celIssue(issues *cel.Issues, sc scope, text string) error {
	first := issues.Errors()[0]
	e := &celError{message: container.Replace(first.Message), line: first.Location.Line(), col: first.Location.Column() + 1}
	e.message, _, _ = strings.Cut(strings.TrimPrefix(e.message, "Syntax error: "), " expecting {")
	e.message = clip(e.message, 300)
	if m := undeclared.FindStringSubmatch(e.message); m != nil {
		e.message, _, _ = strings.Cut(e.message, " (did you mean")
		e.hint = unknownHint(m[1], text, sc)
		e.col = startOf(m[1], text, e.col)
		if name, ok := strings.CutPrefix(m[1], "_"); ok && strings.Contains(text, "$"+name) {
			e.message = "undeclared reference to '$" + name + "'"
		}
	} else if m := overload.FindStringSubmatch(e.message); m != nil {
		e.message, e.hint = overloadText(m[1], m[2])
	} else {
		e.hint = syntaxHints(e.message, text)
	}
	e.message = strings.NewReplacer("mismatched input '<EOF>'", "it ends too early", " expecting <EOF>", ": the expression was over").Replace(e.message)
	return e
}

var functionNames = []string{
	"decimal", "int", "string", "bool", "timestamp", "duration", "truncate", "size", "has", "matches", "startsWith", "endsWith", "contains",
}

// unknownHint says what a name that nothing bears was probably meant to be.
func unknownHint(name, text string, sc scope) string {
	known := sc.names()
	if strings.HasPrefix(name, "event.") || strings.HasPrefix(name, "meta.") {
		return unknownName(name, sc).hint
	}
	words := slices.Concat(known, functionNames)
	if name != text { // by itself, none of these is a value
		words = append(words, "event", "headers", "meta")
	}
	if w := nearest(name, words); w != "" {
		return "did you mean " + w + "?"
	}
	short, isDollar := strings.CutPrefix(name, "_")
	switch root, _, _ := strings.Cut(name, "."); {
	case name == "double" || name == "float":
		return "floats are not exact: write decimal(…)"
	case root == "ce":
		return "CloudEvents have attributes: write format: cloudevents"
	case isDollar && strings.Contains(text, "$"+short):
		return "write $." + short
	case isIdent(name) && !strings.Contains(text, name+"("):
		return "write $." + name + " for a member of the document, and '\"" + name + "\"' for a text"
	}
	return "known are " + strings.Join(known, ", ")
}

// startOf is where a name begins: CEL points behind what it was called or selected from.
func startOf(name, text string, col int) int {
	last := name
	if i := strings.LastIndexByte(name, '.'); i >= 0 && col <= len(text) && text[col-1] == '.' {
		last = name[:i] // the dot before the last part
	}
	if from := col - 1 - len(last); from >= 0 && col-1 <= len(text) && strings.HasPrefix(text[from:], name) {
		return from + 1
	}
	return col
}

var overload = regexp.MustCompile(`found no matching overload for '([^']*)' applied to '([^']*)'`)

var optionalType = regexp.MustCompile(`optional_type\(([^()]*)\)`)

// overloadText says which types do not go together, with the operator as it is written.
func overloadText(name, types string) (message, hint string) {
	if strings.Contains(types, "double") {
		return "a number with a point is a float, which is not exact", `write decimal("12.50")`
	}
	types = strings.NewReplacer("string", "text", "dyn", "any value", "google.protobuf.Timestamp", "timestamp").Replace(types)
	operator := strings.Trim(strings.ReplaceAll(name, "@", ""), "_")
	if strings.Contains(types, "optional_type(") {
		types = optionalType.ReplaceAllString(types, "$1 that may be absent")
		return fmt.Sprintf("%s does not take %s", operator, types), `say what it is where it is absent: $.?name.orValue("")`
	}
	return fmt.Sprintf("%s does not take %s", operator, types), "make them of one type: int(…), string(…), decimal(…), timestamp(…)"
}

// syntaxHints are what people write who think of another language.
func syntaxHints(message, text string) string {
	if strings.HasPrefix(text, "not ") {
		return "write !"
	}
	for _, h := range []struct{ part, hint string }{
		{"at: '= ", "write == to compare"},
		{"at: '='", "write == to compare"},
		{"input 'and'", "write &&"},
		{"input 'or'", "write ||"},
		{"at: '@'", "a path names one value, as $.a.b, $.a[0] or $.?a; conditions are CEL, as $.a.exists(x, x.b == 1)"},
		{"input '*'", "a path names one value, as $.a.b, $.a[0] or $.?a; for all of a list see exists, all, filter and map of CEL"},
		{"'<EOF>'", "the expression is not complete"},
		{"input '.'", "a name is missing at a dot: write $.name"},
	} {
		if strings.Contains(message, h.part) {
			return h.hint
		}
	}
	return `an expression is a path, as $.a.b, or CEL, as event.type == "opened" && $.n > 3`
}

// noFloats refuses numbers that are written with a point: they would be rounded.
func noFloats(a *ast.AST) error {
	var found *celError
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.LiteralKind && found == nil {
			if _, ok := e.AsLiteral().(types.Double); ok {
				at := a.SourceInfo().GetStartLocation(e.ID())
				found = &celError{"a number with a point is a float, which is not exact", `write decimal("12.50")`, at.Line(),
					at.Column() + 1}
			}
		}
	}))
	if found != nil {
		return found
	}
	return nil
}

var celTypes = map[kind]*cel.Type{
	dynKind: cel.DynType, textKind: cel.StringType, intKind: cel.IntType, timeKind: cel.TimestampType, boolKind: cel.BoolType,
	mapKind: cel.MapType(cel.StringType, cel.StringType),
}

func kindOf(t *cel.Type) (k kind, optional bool) {
	if t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type" {
		k, _ = kindOf(t.Parameters()[0])
		return k, true
	}
	switch {
	case t.IsExactType(cel.StringType):
		return textKind, false
	case t.IsExactType(cel.IntType):
		return intKind, false
	case t.IsExactType(cel.BoolType):
		return boolKind, false
	case t.IsExactType(cel.TimestampType):
		return timeKind, false
	case t.IsExactType(decimalType):
		return decimalKind, false
	case t.Kind() == types.MapKind || t.Kind() == types.ListKind:
		return jsonKind, false
	case t.Kind() == types.DynKind:
		return dynKind, false
	}
	return noKind, false
}

// activation gives CEL what it asks for, and makes nothing before that.
type activation struct{ in *input }

func (a activation) ResolveName(name string) (any, bool) {
	if name == "_" {
		name = "$"
	}
	v, err := a.in.get(name)
	switch {
	case err != nil:
		return types.WrapErr(err), true
	case v == absent:
		return nil, false
	}
	if t, ok := v.(time.Time); ok {
		return types.Timestamp{Time: t}, true
	}
	return v, true
}

func (a activation) Parent() interpreter.Activation { return nil }

// native makes a Go value of what an expression returned.
func native(v ref.Val, depth int) (any, error) {
	if depth > maxExprDepth {
		return nil, fmt.Errorf("the value is nested more than %d deep", maxExprDepth)
	}
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > 1<<63-1 {
			return nil, errors.New("the number is too large")
		}
		return int64(v), nil
	case types.Bool:
		return bool(v), nil
	case types.Timestamp:
		return v.Time, nil
	case types.Null:
		return nil, nil
	case decimal:
		return v, nil
	case *types.Optional:
		if !v.HasValue() {
			return absent, nil
		}
		return native(v.GetValue(), depth+1)
	case *types.Err:
		return nil, v
	case traits.Mapper:
		m := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			key, ok := k.(types.String)
			if !ok {
				return nil, errors.New("the name of a member is not text")
			}
			var err error
			if m[string(key)], err = native(v.Get(k), depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	case traits.Lister:
		l := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			n, err := native(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			l = append(l, n)
		}
		return l, nil
	}
	return nil, fmt.Errorf("a %s is no value of an event", v.Type().TypeName())
}

func (s scope) names() []string {
	var all []string
	for n := range s {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}
