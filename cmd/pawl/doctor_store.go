package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// mostSkew is how far two clocks may be apart before it is worth a word: holds end and lag is told by them.
const mostSkew = 5 * time.Second

func checkStore(_ context.Context, v *visit) diagnosis {
	switch {
	case v.storeErr != nil:
		return failed(v.storeErr)
	case v.inspection != nil:
		return healthy("%s answers: PostgreSQL %s, as %s", v.store.name, v.inspection.Version, v.inspection.Role)
	}
	return healthy("%s can be read and written", v.store.name)
}

// checkSettings looks for a server that may lose what it has acknowledged.
func checkSettings(ctx context.Context, v *visit) diagnosis {
	if err := v.store.server.settings(ctx); err != nil {
		return failed(err)
	}
	return healthy("a commit that was acknowledged is not lost")
}

func checkMigrations(_ context.Context, v *visit) diagnosis {
	switch have, want := v.version, v.store.needs(); {
	case v.versionErr != nil:
		return failed(v.versionErr)
	case have == 0:
		return failure("pawl migrate up --execute", "Pawl's tables are not there")
	case have < want:
		return failure("pawl migrate up --execute", "Pawl's tables are at version %d, this program needs %d", have, want)
	case have > want:
		return failure("use a newer pawl", "Pawl's tables are at version %d, this program knows %d", have, want)
	}
	return healthy("Pawl's tables are at version %d", v.version)
}

// checkRights compares what the role may with what running takes. Migrating takes more, and is better done by another role.
func checkRights(_ context.Context, v *visit) diagnosis {
	in := v.inspection
	switch {
	case v.inspectErr != nil:
		return failed(v.inspectErr)
	case len(in.Missing) > 0:
		lacks, grants := byTable(in.Missing, in.Role)
		return failure(grants, "%s lacks rights on %s that running needs:\n%s", in.Role, plural(strings.Count(lacks, "\n")+1, "table"), lacks)
	case in.Superuser:
		return warning("run as a role that has select, insert, update and delete on the tables, and migrate with another",
			"%s is a superuser: what goes wrong here goes wrong everywhere", in.Role)
	case len(in.Excess) > 0:
		return warning("take it away from "+in.Role+", and migrate with another role",
			"%s may %s, which running does not need", in.Role, strings.Join(in.Excess, ", "))
	}
	return healthy("%s has what running needs, and no more", in.Role)
}

// byTable writes rights that are missing ("insert on pawl_decision") as a line for each table, and as statements that give them:
// one for all tables that lack the same.
func byTable(missing []string, role string) (lacks, grants string) {
	rights, alike := map[string][]string{}, map[string][]string{}
	for _, m := range missing {
		right, table, _ := strings.Cut(m, " on ")
		rights[table] = append(rights[table], right)
	}
	quoted := `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
	var lines, statements []string
	for _, table := range slices.Sorted(maps.Keys(rights)) {
		of := strings.Join(rights[table], ", ")
		lines = append(lines, table+": "+of)
		alike[of] = append(alike[of], table)
	}
	for _, of := range slices.Sorted(maps.Keys(alike)) {
		statements = append(statements, fmt.Sprintf("grant %s on %s to %s;", of, strings.Join(alike[of], ", "), quoted))
	}
	return strings.Join(lines, "\n"), strings.Join(statements, "\n")
}

// checkConnections compares what the processes may open with what the server gives.
func checkConnections(ctx context.Context, v *visit) diagnosis {
	in := v.inspection
	if in == nil {
		return skipped("the server did not say how many it gives")
	}
	workers := 0
	for _, p := range v.pipelines {
		workers += cmp.Or(p.Limits.Workers, min(2*runtime.GOMAXPROCS(0), 16))
	}
	pool, open := v.store.server.pool, v.store.server.pool*v.processes
	gives := in.Connections
	for _, limit := range []int{in.RoleLimit, in.DatabaseLimit} {
		if limit >= 0 && !in.Superuser {
			gives = min(gives, limit)
		}
	}
	budget := fmt.Sprintf("%d × %s", v.processes, plural(pool, "connection"))
	proxied, _ := v.store.server.proxied(ctx)
	switch {
	case !proxied && open > gives:
		return failure("lower pool_max_conns in the connection string, run fewer processes, or raise the limit",
			"%s are more than the server gives: %d", budget, gives)
	case !proxied && open+in.Others > in.Connections:
		return warning("lower pool_max_conns, or raise max_connections",
			"%s, beside %d that other roles have now, are more than the server gives to all: %d", budget, in.Others, in.Connections)
	case workers > pool:
		return warning(fmt.Sprintf("add pool_max_conns=%d to the connection string, or lower limits.workers", workers),
			"%s share %s in each process: some wait for others", plural(workers, "worker"), plural(pool, "connection"))
	}
	return healthy("%s at most, for %s; the server gives %d", budget, plural(workers, "worker"), gives)
}

func checkProxy(ctx context.Context, v *visit) diagnosis {
	switch proxied, err := v.store.server.proxied(ctx); {
	case err != nil:
		return failed(err)
	case proxied:
		return healthy("a proxy shares the connections: that is fine, nothing needs a session. If it keeps no prepared statements " +
			"(PgBouncer before 1.21), add default_query_exec_mode=exec")
	}
	return healthy("no proxy is in between")
}

func checkClock(_ context.Context, v *visit) diagnosis {
	if v.inspection == nil {
		return skipped("the server did not say what time it is")
	}
	skew := v.inspection.Clock.Round(time.Millisecond)
	if skew.Abs() > mostSkew {
		return warning("keep the clocks of both machines in step (NTP)", "the server's clock and this machine's are %s apart", skew.Abs())
	}
	return healthy("the server's clock and this machine's are %s apart", skew.Abs())
}

func checkTables(ctx context.Context, v *visit) diagnosis {
	tables := v.p.Tables()
	if err := v.store.tables(ctx, tables); err != nil {
		d := failed(err)
		if known, ok := errors.AsType[*pawl.Error](err); ok && known.Class == pawl.Misconfigured {
			d.text = known.Err.Error()
		}
		return d
	}
	var names []string
	for _, t := range tables {
		names = append(names, t.Name)
	}
	return healthy("%s: the columns, keys and rights are there", strings.Join(names, ", "))
}

// checkConsumer looks whether the consumer's name belongs to this group and cluster: its claims and positions do.
func checkConsumer(ctx context.Context, v *visit) diagnosis {
	known, err := v.store.admin.Consumers(ctx)
	if err != nil {
		return failed(err)
	}
	name, group := v.p.ConsumerName(), v.p.GroupName()
	for _, c := range known {
		switch {
		case c.Name != name:
		case c.Cluster != v.cluster || c.Group != group:
			return failure("use that group and cluster; under another consumer name every event takes effect again",
				"%s belongs to group %s of cluster %s, not to group %s of cluster %s", name, c.Group, c.Cluster, group, v.cluster)
		default:
			return healthy("%s is known since %s", name, c.Since.UTC().Format(time.DateOnly))
		}
	}
	return healthy("%s is new here: it begins at %s", name, cmp.Or(v.p.Start, "earliest"))
}
