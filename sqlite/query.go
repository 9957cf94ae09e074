package sqlite

import (
	"embed"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/internal/sqlfile"
)

//go:embed sql/*.sql migration/*.sql
var files embed.FS

var queries = func() map[string]string {
	all := sqlfile.Queries(files, "sql")
	shared := strings.NewReplacer("{{matches}}", all["quarantine_matches"], "{{in_no_operation}}", all["in_no_operation"])
	for name, text := range all {
		all[name] = shared.Replace(text)
	}
	return all
}()

// query returns the text of a named query. A name that does not exist is a mistake that no test survives.
func query(name string) string {
	text, ok := queries[name]
	if !ok {
		panic(fmt.Sprintf("sqlite: no query %q", name))
	}
	return text
}

// list is a query over a list of rows: the part between /* each */ and /* end */ stands once for each.
type list struct {
	head, each, tail string
	columns          int
}

func listQuery(name string) list {
	head, rest, ok := strings.Cut(query(name), "/* each */")
	each, tail, ended := strings.Cut(rest, "/* end */")
	if !ok || !ended {
		panic(fmt.Sprintf("sqlite: query %q does not mark its rows", name))
	}
	return list{head, strings.TrimSpace(each), tail, strings.Count(each, "?")}
}

// of returns the query for n rows.
func (l list) of(n int) string {
	return l.head + l.each + strings.Repeat(", "+l.each, n-1) + l.tail
}
