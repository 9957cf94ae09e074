package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/cockroachdb/apd/v3"
)

// decimal is an exact number in an expression: what has a fraction, or is too large for an int.
type decimal struct{ d *apd.Decimal }

// maxDigits bounds a decimal on both sides of the point. Without a bound, 1e999999999 + 1 would need a gigabyte.
const maxDigits = 1000

// exact is arithmetic that never rounds.
var exact = apd.Context{Precision: 0, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Traps: apd.DefaultTraps}

func parseDecimal(text string) (decimal, error) {
	if len(text) > 2*maxDigits || !isDecimal(text) {
		return decimal{}, fmt.Errorf("%q is no decimal number", clip(text, 40))
	}
	d, _, err := apd.NewFromString(text)
	if err != nil {
		return decimal{}, fmt.Errorf("%q is no decimal number", clip(text, 40))
	}
	return bounded(d)
}

// isDecimal reports whether text is -12.50e3 or simpler. NaN, Infinity, +1, .5 and 1_000 are not.
func isDecimal(text string) bool {
	text = strings.TrimPrefix(text, "-")
	digits := func() bool {
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		text = text[n:]
		return n > 0
	}
	if !digits() {
		return false
	}
	if rest, ok := strings.CutPrefix(text, "."); ok {
		if text = rest; !digits() {
			return false
		}
	}
	if text == "" {
		return true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return false
	}
	if text = text[1:]; text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	return len(text) <= 9 && digits() && text == ""
}

func bounded(d *apd.Decimal) (decimal, error) {
	if d.IsZero() {
		d.Exponent = max(min(d.Exponent, 0), -maxDigits)
	}
	if d.Form != apd.Finite || d.Exponent > maxDigits || d.Exponent < -maxDigits || d.NumDigits() > maxDigits {
		return decimal{}, fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	return decimal{d}, nil
}

// text spells the number without an exponent.
func (d decimal) text() string { return d.d.Text('f') }

// number makes of a JSON number an int64 if it is one, and else a decimal.
func number(n json.Number) (any, error) {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i, nil
	}
	d, err := parseDecimal(string(n))
	if err != nil {
		return nil, err
	}
	var whole apd.Decimal
	whole.Reduce(d.d)
	if whole.Exponent >= 0 {
		if i, err := whole.Int64(); err == nil {
			return i, nil
		}
	}
	return d, nil
}

// numberText is the one spelling of a number: 100 for 1e2 and for 100.0.
func numberText(n json.Number) (string, error) {
	v, err := number(n)
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), nil
	case decimal:
		var d apd.Decimal
		d.Reduce(v.d)
		return decimal{&d}.text(), nil
	}
	return "", err
}

var decimalType = cel.ObjectType("decimal", traits.NegatorType)

var errDecimal = errors.New("a decimal has no such conversion")

// ConvertToNative, ConvertToType, Equal, Type and Value make it a value of CEL.
func (d decimal) ConvertToNative(reflect.Type) (any, error) { return nil, errDecimal }

func (d decimal) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.StringType:
		var r apd.Decimal
		r.Reduce(d.d)
		return types.String(decimal{&r}.text())
	case types.TypeType:
		return decimalType
	}
	return types.WrapErr(errDecimal)
}

func (d decimal) Equal(other ref.Val) ref.Val {
	o, ok := asDecimal(other)
	return types.Bool(ok && d.d.Cmp(o.d) == 0)
}

func (d decimal) Type() ref.Type { return decimalType }
func (d decimal) Value() any     { return d }

// Negate is the unary minus.
func (d decimal) Negate() ref.Val {
	var n apd.Decimal
	n.Neg(d.d)
	return decimal{&n}
}

// asDecimal takes whole numbers for decimals: that is exact.
func asDecimal(v ref.Val) (decimal, bool) {
	switch v := v.(type) {
	case decimal:
		return v, true
	case types.Int:
		return decimal{apd.New(int64(v), 0)}, true
	}
	return decimal{}, false
}

// binary is an operator of CEL.
type binary = func(l, r ref.Val) ref.Val

// arithmetic works on decimals where one of the two is one, and as CEL does otherwise.
func arithmetic(op func(d, x, y *apd.Decimal) (apd.Condition, error), otherwise binary) binary {
	return func(l, r ref.Val) ref.Val {
		_, left := l.(decimal)
		_, right := r.(decimal)
		if !left && !right {
			return otherwise(l, r)
		}
		x, ok := asDecimal(l)
		y, also := asDecimal(r)
		if !ok || !also {
			return types.MaybeNoSuchOverloadErr(r)
		}
		var out apd.Decimal
		if _, err := op(&out, x.d, y.d); err != nil {
			return types.WrapErr(err)
		}
		d, err := bounded(&out)
		if err != nil {
			return types.WrapErr(err)
		}
		return d
	}
}

func compare(holds func(int) bool) binary {
	return func(l, r ref.Val) ref.Val {
		_, left := l.(decimal)
		_, right := r.(decimal)
		if left || right {
			x, ok := asDecimal(l)
			y, also := asDecimal(r)
			if !ok || !also {
				return types.MaybeNoSuchOverloadErr(r)
			}
			return types.Bool(holds(x.d.Cmp(y.d)))
		}
		c, ok := l.(traits.Comparer)
		if !ok {
			return types.MaybeNoSuchOverloadErr(l)
		}
		switch n := c.Compare(r).(type) {
		case types.Int:
			return types.Bool(holds(int(n)))
		default:
			return n
		}
	}
}

// operators are those of CEL without floats and with decimals. They take the place of the standard ones.
func operators() []cel.EnvOption {
	dec := decimalType
	overload := func(id string, out *cel.Type, args ...*cel.Type) cel.FunctionOpt { return cel.Overload(id, args, out) }
	list := cel.ListType(cel.TypeParamType("A"))
	opts := []cel.EnvOption{
		cel.Function("_+_",
			overload("add_int64", cel.IntType, cel.IntType, cel.IntType),
			overload("add_uint64", cel.UintType, cel.UintType, cel.UintType),
			overload("add_string", cel.StringType, cel.StringType, cel.StringType),
			overload("add_bytes", cel.BytesType, cel.BytesType, cel.BytesType),
			overload("add_list", list, list, list),
			overload("add_duration_duration", cel.DurationType, cel.DurationType, cel.DurationType),
			overload("add_duration_timestamp", cel.TimestampType, cel.DurationType, cel.TimestampType),
			overload("add_timestamp_duration", cel.TimestampType, cel.TimestampType, cel.DurationType),
			overload("add_decimal", dec, dec, dec), overload("add_decimal_int64", dec, dec, cel.IntType),
			overload("add_int64_decimal", dec, cel.IntType, dec),
			cel.SingletonBinaryBinding(arithmetic(exact.Add, func(l, r ref.Val) ref.Val {
				if a, ok := l.(traits.Adder); ok {
					return a.Add(r)
				}
				return types.MaybeNoSuchOverloadErr(l)
			}))),
		cel.Function("_-_",
			overload("subtract_int64", cel.IntType, cel.IntType, cel.IntType),
			overload("subtract_uint64", cel.UintType, cel.UintType, cel.UintType),
			overload("subtract_duration_duration", cel.DurationType, cel.DurationType, cel.DurationType),
			overload("subtract_timestamp_duration", cel.TimestampType, cel.TimestampType, cel.DurationType),
			overload("subtract_timestamp_timestamp", cel.DurationType, cel.TimestampType, cel.TimestampType),
			overload("subtract_decimal", dec, dec, dec), overload("subtract_decimal_int64", dec, dec, cel.IntType),
			overload("subtract_int64_decimal", dec, cel.IntType, dec),
			cel.SingletonBinaryBinding(arithmetic(exact.Sub, func(l, r ref.Val) ref.Val {
				if s, ok := l.(traits.Subtractor); ok {
					return s.Subtract(r)
				}
				return types.MaybeNoSuchOverloadErr(l)
			}))),
		cel.Function("_*_",
			overload("multiply_int64", cel.IntType, cel.IntType, cel.IntType),
			overload("multiply_uint64", cel.UintType, cel.UintType, cel.UintType),
			overload("multiply_decimal", dec, dec, dec), overload("multiply_decimal_int64", dec, dec, cel.IntType),
			overload("multiply_int64_decimal", dec, cel.IntType, dec),
			cel.SingletonBinaryBinding(arithmetic(exact.Mul, func(l, r ref.Val) ref.Val {
				if m, ok := l.(traits.Multiplier); ok {
					return m.Multiply(r)
				}
				return types.MaybeNoSuchOverloadErr(l)
			}))),
		cel.Function("-_",
			overload("negate_int64", cel.IntType, cel.IntType), overload("negate_decimal", dec, dec),
			cel.SingletonUnaryBinding(func(v ref.Val) ref.Val {
				if n, ok := v.(traits.Negater); ok && v.Type() != types.BoolType {
					return n.Negate()
				}
				return types.MaybeNoSuchOverloadErr(v)
			})),
	}
	for op, holds := range map[string]func(int) bool{
		"_<_": func(n int) bool { return n < 0 }, "_<=_": func(n int) bool { return n <= 0 },
		"_>_": func(n int) bool { return n > 0 }, "_>=_": func(n int) bool { return n >= 0 },
	} {
		word := map[string]string{"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}[op]
		var all []cel.FunctionOpt
		for id, t := range map[string]*cel.Type{
			"int64": cel.IntType, "uint64": cel.UintType, "string": cel.StringType, "bytes": cel.BytesType, "bool": cel.BoolType,
			"timestamp": cel.TimestampType, "duration": cel.DurationType, "decimal": dec,
		} {
			all = append(all, overload(word+"_"+id, cel.BoolType, t, t))
		}
		all = append(all, overload(word+"_decimal_int64", cel.BoolType, dec, cel.IntType),
			overload(word+"_int64_decimal", cel.BoolType, cel.IntType, dec))
		opts = append(opts, cel.Function(op, append(all, cel.SingletonBinaryBinding(compare(holds)))...))
	}
	// Conversions.
	opts = append(opts,
		cel.Function("decimal",
			cel.Overload("decimal_decimal", []*cel.Type{dec}, dec, cel.UnaryBinding(func(v ref.Val) ref.Val { return v })),
			cel.Overload("int64_to_decimal", []*cel.Type{cel.IntType}, dec, cel.UnaryBinding(func(v ref.Val) ref.Val {
				d, ok := asDecimal(v)
				if !ok {
					return types.MaybeNoSuchOverloadErr(v)
				}
				return d
			})),
			cel.Overload("string_to_decimal", []*cel.Type{cel.StringType}, dec, cel.UnaryBinding(func(v ref.Val) ref.Val {
				s, ok := v.(types.String)
				if !ok {
					return types.MaybeNoSuchOverloadErr(v)
				}
				d, err := parseDecimal(string(s))
				if err != nil {
					return types.WrapErr(err)
				}
				return d
			}))),
		cel.Function("string", cel.Overload("decimal_to_string", []*cel.Type{dec}, cel.StringType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(types.StringType) }))),
	)
	return opts
}

// excluded are the standard functions that operators and texts replace, and the one that makes floats.
var excluded = []string{"_+_", "_-_", "_*_", "-_", "_<_", "_<=_", "_>_", "_>=_", "double", "matches"}
