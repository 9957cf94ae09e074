package pipeline

import (
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Bounds of functions on text, which a record may make long. CEL counts what a call has cost when it is over: these would be
// over after gigabytes, or minutes.
const (
	maxText    = 10 * maxCost // bytes of a result: what is longer costs too much in any case
	maxMatched = 64 << 10     // bytes that a regular expression looks at
	maxPattern = 1000         // bytes of a regular expression
)

// texts are CEL's functions on text that are bounded before they begin. They take the place of CEL's own.
func texts() []cel.EnvOption {
	text := cel.StringType
	return []cel.EnvOption{
		cel.Function("replace",
			cel.MemberOverload("string_replace_string_string", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replace)),
			cel.MemberOverload("string_replace_string_string_int", []*cel.Type{text, text, text, cel.IntType}, text, cel.FunctionBinding(replace))),
		cel.Function("matches",
			cel.Overload("matches", []*cel.Type{text, text}, cel.BoolType),
			cel.MemberOverload("matches_string", []*cel.Type{text, text}, cel.BoolType),
			cel.SingletonBinaryBinding(func(in, pattern ref.Val) ref.Val {
				p, ok := pattern.(types.String)
				if !ok {
					return types.MaybeNoSuchOverloadErr(pattern)
				}
				re, err := compilePattern(string(p))
				if err != nil {
					return types.WrapErr(err)
				}
				return match(re, in)
			})),
	}
}

// patterns compile regular expressions that are written in the file once.
func patterns() cel.ProgramOption {
	var all []*interpreter.RegexOptimization
	for _, overload := range []string{"matches", "matches_string"} {
		all = append(all, &interpreter.RegexOptimization{Function: "matches", OverloadID: overload, RegexIndex: 1,
			Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
				re, err := compilePattern(pattern)
				if err != nil {
					return nil, err
				}
				return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
					return match(re, args[0])
				}), nil
			}})
	}
	return cel.OptimizeRegex(all...)
}

func compilePattern(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a regular expression has %d bytes; at most %d are read", len(pattern), maxPattern)
	}
	return regexp.Compile(pattern)
}

func match(re *regexp.Regexp, in ref.Val) ref.Val {
	text, ok := in.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(in)
	}
	if len(text) > maxMatched {
		return types.NewErr("matches: the text has %d bytes; at most %d are looked at", len(text), maxMatched)
	}
	return types.Bool(re.MatchString(string(text)))
}

// replace is text.replace(old, new) and text.replace(old, new, at most so often).
func replace(args ...ref.Val) ref.Val {
	var texts [3]string
	for i := range texts {
		t, ok := args[i].(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[i])
		}
		texts[i] = string(t)
	}
	text, old, by, most := texts[0], texts[1], texts[2], -1
	if len(args) > 3 {
		n, ok := args[3].(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[3])
		}
		most = int(max(min(n, maxText), -1))
	}
	times := strings.Count(text, old)
	if most >= 0 {
		times = min(times, most)
	}
	if n := len(text) + times*(len(by)-len(old)); n > maxText {
		return types.NewErr("replace: the text would have more than %d bytes", maxText)
	}
	return types.String(strings.Replace(text, old, by, most))
}
