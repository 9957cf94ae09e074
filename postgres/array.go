package postgres

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// literal writes an array as PostgreSQL reads it in text, for drivers of database/sql, which have no common way to pass
// one. Other values stay as they are.
func literal(v any) any {
	switch a := v.(type) {
	case []int16:
		return array(a, func(b *strings.Builder, n int16) { b.WriteString(strconv.Itoa(int(n))) })
	case []int32:
		return array(a, func(b *strings.Builder, n int32) { b.WriteString(strconv.Itoa(int(n))) })
	case []int64:
		return array(a, func(b *strings.Builder, n int64) { b.WriteString(strconv.FormatInt(n, 10)) })
	case []*int16:
		return array(a, nullable(func(b *strings.Builder, n int16) { b.WriteString(strconv.Itoa(int(n))) }))
	case []*int32:
		return array(a, nullable(func(b *strings.Builder, n int32) { b.WriteString(strconv.Itoa(int(n))) }))
	case []*int64:
		return array(a, nullable(func(b *strings.Builder, n int64) { b.WriteString(strconv.FormatInt(n, 10)) }))
	case []bool:
		return array(a, func(b *strings.Builder, v bool) { b.WriteString(strconv.FormatBool(v)) })
	case []*bool:
		return array(a, nullable(func(b *strings.Builder, v bool) { b.WriteString(strconv.FormatBool(v)) }))
	case []string:
		return array(a, writeText)
	case []*string:
		return array(a, nullable(writeText))
	case []time.Time:
		return array(a, writeTime)
	case []*time.Time:
		return array(a, nullable(writeTime))
	case [][]byte:
		return array(a, func(b *strings.Builder, v []byte) {
			if v == nil {
				b.WriteString("NULL")
				return
			}
			b.WriteString(`"\\x`)
			b.WriteString(hex.EncodeToString(v))
			b.WriteByte('"')
		})
	case []pgtype.UUID:
		return array(a, func(b *strings.Builder, v pgtype.UUID) {
			if !v.Valid {
				b.WriteString("NULL")
				return
			}
			b.WriteString(hex.EncodeToString(v.Bytes[:]))
		})
	case pgtype.UUID:
		return hex.EncodeToString(a.Bytes[:])
	case nil, string, int16, int32, int64, float64, bool, time.Time, []byte:
		return a
	}
	panic(fmt.Sprintf("postgres: no literal for %T", v)) // the arguments are this package's own
}

func array[E any](a []E, write func(*strings.Builder, E)) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, e := range a {
		if i > 0 {
			b.WriteByte(',')
		}
		write(&b, e)
	}
	b.WriteByte('}')
	return b.String()
}

func nullable[E any](write func(*strings.Builder, E)) func(*strings.Builder, *E) {
	return func(b *strings.Builder, e *E) {
		if e == nil {
			b.WriteString("NULL")
			return
		}
		write(b, *e)
	}
}

func writeText(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
}

func writeTime(b *strings.Builder, t time.Time) {
	b.WriteByte('"')
	b.WriteString(t.UTC().Format("2006-01-02 15:04:05.999999Z07:00"))
	b.WriteByte('"')
}
