package storetest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func chainTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"every kind of act is in a chain", chainEveryAct[Tx]},
		{"digests are those that Go computes, row by row", chainDigests[Tx]},
		{"what is changed or put in behind Pawl's back is found and named", chainTampered[Tx]},
		{"what is taken away is found and named", chainTakenAway[Tx]},
		{"what was sealed cannot be written anew", chainSealed[Tx]},
		{"seals cannot be changed either", chainSealTampered[Tx]},
		{"an erased act keeps its place", chainErased[Tx]},
		{"acts from before there were chains are told apart", chainOld[Tx]},
		{"operations that are carried out at once have chains of their own", chainApart[Tx]},
		{"acts at once come one after the other, and verification goes on meanwhile", chainRace[Tx]},
		{"a seal covers what has grown since the last", chainSeals[Tx]},
		{"two seals at once are one after the other", chainSealRace[Tx]},
		{"what fails leaves no act and no gap", chainUndone[Tx]},
	}
}

func (w *world[Tx]) verify() *pawl.AuditVerdict {
	w.Helper()
	v, err := pawl.VerifyAudit(w.ctx, w.Store.Admin(), "billing")
	if err != nil {
		w.Fatalf("verify: %v", err)
	}
	return v
}

// wantSound expects that nothing is wrong, and returns how long each chain is.
func (w *world[Tx]) wantSound() map[int64]int64 {
	w.Helper()
	lengths := map[int64]int64{}
	v := w.verify()
	for _, f := range faults(v) {
		w.Errorf("found: %s", f)
	}
	for _, c := range v.Chains {
		lengths[c.Operation] = c.Acts
	}
	return lengths
}

// faults are everything that was found, one line each: operation, place in its chain, and what.
func faults(v *pawl.AuditVerdict) []string {
	var all []string
	for _, f := range v.Faults {
		all = append(all, f.What)
	}
	for _, c := range v.Chains {
		for _, f := range c.Faults {
			all = append(all, fmt.Sprintf("operation %d, row %d: %s", c.Operation, f.Number, f.What))
		}
	}
	return all
}

func (w *world[Tx]) pause(a pawl.Admin, why string) {
	w.Helper()
	if err := a.Pause(w.ctx, "billing", pawl.Pause{By: "ada", Why: why, At: now.Add(time.Hour)}); err != nil {
		w.Errorf("pause: %v", err)
	}
}

// trail are all rows of the audit, in the order of their chains.
func (w *world[Tx]) trail() (all []pawl.AuditRow) {
	w.Helper()
	err := w.Store.Admin().AuditTrail(w.ctx, "billing", func(*pawl.AuditSeal) {}, func(l *pawl.AuditLink) error {
		if l.Row != nil {
			all = append(all, *l.Row)
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

func chainEveryAct[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	admin := w.Store.Admin()
	o := c.acquire(partition(0), 0)
	set := func(id int64, state pawl.OperationState) {
		if err := admin.SetOperation(w.ctx, id, state, "ops", "so", now); err != nil {
			t.Fatal(err)
		}
	}
	c.spoiled(o, 6)
	r := request(pawl.OperationReplay)
	r.Limit, r.Canary = 3, 1
	replay := w.start(r)
	c.must(o, c.settle, task(c.tasks(o)[0]))
	set(replay.ID, pawl.OperationRunning)
	c.must(o, setAside[Tx](pawl.CauseFailure, "still not", 2), task(c.tasks(o)[0]))
	set(replay.ID, pawl.OperationPaused)
	set(replay.ID, pawl.OperationCanceled)

	edit := request(pawl.OperationEdit)
	edit.Filter.IDs, edit.Value = []int64{w.quarantined(3)}, []byte("s3/k0-3 right")
	edited := w.start(edit)
	c.must(o, c.settle, task(c.tasks(o)[0]))
	skip := request(pawl.OperationSkip)
	skip.Filter.IDs = []int64{w.quarantined(4)}
	skipped := w.start(skip)
	c.must(o, decide[Tx](pawl.Skipped), task(c.tasks(o)[0]))
	archived := w.start(request(pawl.OperationArchive))

	w.pause(admin, "moving")
	if err := admin.Resume(w.ctx, "billing", "ada", "moved", now); err != nil {
		t.Fatal(err)
	}
	c.raise(belowLog(partition(0)))
	if err := admin.Resolve(w.ctx, w.conditions()[0].ID, answer(12)); err != nil {
		t.Fatal(err)
	}

	got := map[int64][]string{}
	for _, r := range w.trail() {
		got[r.Operation] = append(got[r.Operation], r.What)
		if len(r.Digest) != 32 || len(r.Chain) != 32 || len(r.Salt) != 16 {
			t.Errorf("row: %+v", r)
		}
	}
	for id, want := range map[int64][]string{
		0:           {"pause", "resume", "answer " + string(pawl.StateBelowLog)},
		replay.ID:   {"start replay", "replay", "operation running", "replay", "operation paused", "operation canceled"},
		edited.ID:   {"start edit", "edit"},
		skipped.ID:  {"start skip", "skip"},
		archived.ID: {"start archive", "archive", "archive", "archive"},
	} {
		if !slices.Equal(got[id], want) {
			t.Errorf("chain of %d: %q, want %q", id, got[id], want)
		}
	}
	if lengths := w.wantSound(); lengths[0] != 3 || lengths[replay.ID] != 6 || len(lengths) != 5 {
		t.Errorf("chains: %v", lengths)
	}
}

func chainDigests[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	admin := w.Store.Admin()
	for i, text := range []string{"plain", "Zoë 🚀", "two\nlines\t\"quoted\" \\", strings.Repeat("long ", 9000), " "} {
		at := []time.Time{now, now.Add(1499 * time.Nanosecond), time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
			time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)}[i]
		if err := admin.Pause(w.ctx, "billing", pawl.Pause{By: text, Why: "because " + text, At: at}); err != nil {
			t.Fatal(err)
		}
	}
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 2)
	r := request(pawl.OperationReplay)
	r.Filter.Reason, r.Why = "", `"ë"`
	w.start(r)
	c.must(o, c.settle, task(c.tasks(o)[0]))
	var head []byte
	rows := w.trail()
	for _, r := range rows {
		if r.Number == 1 {
			head = nil
		}
		if !bytes.Equal(r.Sum(), r.Digest) {
			t.Errorf("digest of %+v: got %x, want %x", r, r.Digest, r.Sum())
		}
		if head = pawl.ChainSum(head, r.Digest); !bytes.Equal(head, r.Chain) {
			t.Errorf("chain of %+v: got %x, want %x", r, r.Chain, head)
		}
	}
	if len(rows) != 7 || rows[1].By != "Zoë 🚀" || rows[5].Detail == "" || rows[6].Item == 0 {
		t.Errorf("rows: %+v", rows)
	}
	// The same bytes in ten years: this is what the encoding is.
	fixed := pawl.AuditRow{Number: 2, Consumer: 1, Operation: 3, What: "replay", By: "ada", Why: "ë", At: time.UnixMicro(7), Detail: "{}", Salt: []byte{9}}
	if got := hex.EncodeToString(fixed.Sum()); got != fixedDigest {
		t.Errorf("the encoding has changed: %s", got)
	}
}

const fixedDigest = "918037804879f8c1d0777ae56317089b30656551f7b3bf13382522f7574903ae"

// chained is a world with a chain of four acts of an operation, and one of three acts of the consumer.
func chained[Tx any](t testing.TB, h Harness[Tx]) (*client[Tx], int64) {
	t.Helper()
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 3)
	op := w.start(request(pawl.OperationReplay))
	for _, next := range c.tasks(o) {
		c.must(o, c.settle, task(next))
	}
	for _, why := range []string{"one", "two", "three"} {
		w.pause(w.Store.Admin(), why)
	}
	if got := w.wantSound(); got[0] != 3 || got[op.ID] != 4 {
		t.Fatalf("chains: %v", got)
	}
	w.exec(h.Unguard)
	return c, op.ID
}

// rewrite changes rows of a chain and computes every hash anew, as one would who knows how.
func (c *client[Tx]) rewriteChain(operation int64, change func(*pawl.AuditRow)) {
	c.Helper()
	var head []byte
	for _, r := range c.trail() {
		if r.Operation != operation {
			continue
		}
		change(&r)
		head = pawl.ChainSum(head, r.Sum())
		c.exec(`update pawl_audit set actor = ?, digest = ?, chain = ? where id = ?`, r.By, r.Sum(), head, r.ID)
	}
	c.exec(`update pawl_operation set audit_head = ? where id = ?`, head, operation)
}

// shorten takes the last row of an operation's chain away, and says so where the head is kept.
func (c *client[Tx]) shortenChain(operation int64) {
	c.Helper()
	c.exec(`delete from pawl_audit where operation_id = ? and number = 4`, operation)
	c.exec(`update pawl_operation set audit_length = 3, audit_head = (select chain from pawl_audit where operation_id = ? and number = 3)
		where id = ?`, operation, operation)
}

const ofRow3 = ` where operation_id = ? and number = 3`

func chainTampered[Tx any](t *testing.T, h Harness[Tx]) {
	shared, sharedOp := chained(t, h)
	restore := shared.backup()
	for _, tamper := range []struct {
		name string
		do   func(c *client[Tx], op int64)
		want []string // each in one fault, {op} for the operation
	}{
		{"who", func(c *client[Tx], op int64) { c.exec(`update pawl_audit set actor = 'eve'`+ofRow3, op) },
			[]string{"operation {op}, row 3: it was changed"}},
		{"why", func(c *client[Tx], op int64) { c.exec(`update pawl_audit set why = why || ' '`+ofRow3, op) },
			[]string{"operation {op}, row 3: it was changed"}},
		{"what", func(c *client[Tx], op int64) { c.exec(`update pawl_audit set what = 'skip'`+ofRow3, op) },
			[]string{"operation {op}, row 3: it was changed"}},
		{"when", func(c *client[Tx], op int64) {
			c.exec(`update pawl_audit set at = (select since from pawl_pause)`+ofRow3, op)
		},
			[]string{"operation {op}, row 3: it was changed"}},
		{"what became of it", func(c *client[Tx], op int64) {
			c.exec(`update pawl_audit set detail = (select detail from pawl_audit where operation_id = ? and number = 2)`+ofRow3, op, op)
		}, []string{"operation {op}, row 3: it was changed"}},
		{"no detail", func(c *client[Tx], op int64) { c.exec(`update pawl_audit set detail = null`+ofRow3, op) },
			[]string{"operation {op}, row 3: it was changed"}},
		{"which record", func(c *client[Tx], op int64) { c.exec(`update pawl_audit set item_id = item_id + 1`+ofRow3, op) },
			[]string{"operation {op}, row 3: it was changed"}},
		{"no record", func(c *client[Tx], op int64) { c.exec(`update pawl_audit set item_id = null`+ofRow3, op) },
			[]string{"operation {op}, row 3: it was changed"}},
		{"an act of the consumer", func(c *client[Tx], _ int64) { c.exec(`update pawl_audit set why = 'none' where why = 'two'`) },
			[]string{"operation 0, row 2: it was changed"}},
		{"who, with the digest that goes with it", func(c *client[Tx], op int64) {
			for _, r := range c.trail() {
				if r.Operation == op && r.Number == 3 {
					r.By = "eve"
					c.exec(`update pawl_audit set actor = 'eve', digest = ?`+ofRow3, r.Sum(), op)
				}
			}
		}, []string{"operation {op}, row 3: it does not follow the row before"}},
		{"put in", func(c *client[Tx], op int64) {
			c.exec(`insert into pawl_audit (consumer_id, operation_id, item_id, what, actor, why, at, detail)
				select consumer_id, operation_id, item_id, what, actor, why, at, detail from pawl_audit`+ofRow3, op)
		}, []string{"operation {op}, row 0: Pawl has not written it"}},
		{"put in as one of the chain", func(c *client[Tx], op int64) {
			c.exec(`insert into pawl_audit (consumer_id, operation_id, item_id, what, actor, why, at, detail, number, salt, digest, chain)
				select consumer_id, operation_id, item_id, what, actor, why, at, detail, number, salt, digest, chain from pawl_audit`+ofRow3, op)
		}, []string{"operation {op}, row 3: there is another row in its place", "operation {op}, row 3: it does not follow"}},
		{"put in at the end", func(c *client[Tx], op int64) {
			c.exec(`insert into pawl_audit (consumer_id, operation_id, item_id, what, actor, why, at, detail, number, salt, digest, chain)
				select consumer_id, operation_id, item_id, what, actor, why, at, detail, 5, salt, digest, chain from pawl_audit`+ofRow3, op)
		}, []string{"operation {op}, row 5: it was changed", "operation {op}, row 5: it does not follow", "operation {op}, row 0: the operation knows of 4 rows"}},
		{"reordered", func(c *client[Tx], op int64) {
			c.exec(`update pawl_audit set number = 5 - number where operation_id = ? and number in (2, 3)`, op)
		}, []string{"operation {op}, row 2: it was changed", "operation {op}, row 2: it does not follow", "operation {op}, row 3: it was changed",
			"operation {op}, row 3: it does not follow", "operation {op}, row 4: it does not follow"}},
		{"given to the consumer", func(c *client[Tx], op int64) {
			c.exec(`update pawl_audit set operation_id = null, number = 4 where operation_id = ? and number = 4`, op)
		}, []string{"operation 0, row 4: it was changed", "operation 0, row 4: it does not follow", "operation 0, row 0: the consumer knows of 3 rows",
			"operation {op}, row 0: missing at its end: row 4"}},
		{"its hashes taken away", func(c *client[Tx], op int64) {
			c.exec(`update pawl_audit set number = null, digest = null, chain = null where operation_id = ? and number = 4`, op)
		}, []string{"operation {op}, row 0: Pawl has not written it", "operation {op}, row 0: missing at its end: row 4"}},
		{"the head", func(c *client[Tx], op int64) {
			c.exec(`update pawl_operation set audit_head = (select chain from pawl_audit`+ofRow3+`) where id = ?`, op, op)
		}, []string{"operation {op}, row 0: the operation has another hash of its last row"}},
	} {
		tamper.do(shared, sharedOp)
		v := shared.verify()
		shared.wantFaults(tamper.name, v, sharedOp, tamper.want...)
		for _, chain := range v.Chains {
			for _, f := range chain.Faults {
				if f.Number > 0 && f.Row == 0 {
					t.Errorf("%s: the row is not named: %+v", tamper.name, f)
				}
			}
		}
		restore()
	}
}

// backup returns what undoes every change of rows, and takes away those that were put in.
func (w *world[Tx]) backup() (restore func()) {
	w.Helper()
	tables := map[string][]string{
		"pawl_audit":     {"operation_id", "item_id", "what", "actor", "why", "at", "detail", "number", "salt", "digest", "chain", "erased_at"},
		"pawl_operation": {"audit_length", "audit_head"},
		"pawl_seal":      {"number", "sealed_at", "acts", "hash", "chain"},
	}
	for name := range tables {
		w.exec(`create table kept_` + name + ` as select * from ` + name)
	}
	return func() {
		w.Helper()
		for name, columns := range tables {
			w.exec(`delete from ` + name + ` where id not in (select id from kept_` + name + `)`)
			for _, c := range columns {
				w.exec(fmt.Sprintf(`update %s set %s = (select k.%s from kept_%s k where k.id = %s.id)`, name, c, c, name, name))
			}
		}
		w.wantSound()
	}
}

func chainTakenAway[Tx any](t *testing.T, h Harness[Tx]) {
	for _, tamper := range []struct {
		name string
		do   func(c *client[Tx], op int64)
		want []string
	}{
		{"taken away", func(c *client[Tx], op int64) { c.exec(`delete from pawl_audit`+ofRow3, op) },
			[]string{"operation {op}, row 4: missing before it: row 3", "operation {op}, row 4: it does not follow"}},
		{"taken away, and the rest moved up", func(c *client[Tx], op int64) {
			c.exec(`delete from pawl_audit`+ofRow3, op)
			c.exec(`update pawl_audit set number = 3 where operation_id = ? and number = 4`, op)
		}, []string{"operation {op}, row 3: it was changed", "operation {op}, row 3: it does not follow", "operation {op}, row 0: missing at its end: row 4"}},
		{"the last taken away", func(c *client[Tx], op int64) {
			c.exec(`delete from pawl_audit where operation_id = ? and number = 4`, op)
		},
			[]string{"operation {op}, row 0: missing at its end: row 4"}},
		{"the last of the consumer taken away", func(c *client[Tx], _ int64) {
			c.exec(`delete from pawl_audit where operation_id is null and number > 1`)
		}, []string{"operation 0, row 0: missing at its end: rows 2 to 3"}},
		{"all taken away", func(c *client[Tx], _ int64) { c.exec(`delete from pawl_audit`) },
			[]string{"operation 0, row 0: missing at its end: rows 1 to 3", "operation {op}, row 0: missing at its end: rows 1 to 4"}},
		{"the operation gone", func(c *client[Tx], op int64) {
			c.exec(`delete from pawl_operation_item where operation_id = ?`, op)
			c.exec(`delete from pawl_operation where id = ?`, op)
		}, []string{"operation {op}, row 0: the consumer has no such operation"}},
	} {
		t.Run(tamper.name, func(t *testing.T) {
			t.Parallel()
			c, op := chained(t, h)
			tamper.do(c, op)
			c.wantFaults(tamper.name, c.verify(), op, tamper.want...)
		})
	}
}

func (w *world[Tx]) wantFaults(after string, v *pawl.AuditVerdict, op int64, want ...string) {
	w.Helper()
	got := faults(v)
	same := len(got) == len(want) && v.OK() == (len(want) == 0)
	for i := 0; same && i < len(want); i++ {
		same = strings.HasPrefix(got[i], strings.ReplaceAll(want[i], "{op}", fmt.Sprint(op)))
	}
	if !same {
		w.Errorf("%s: found (ok %v)\n%s\nwant\n%s", after, v.OK(), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func chainSealed[Tx any](t *testing.T, h Harness[Tx]) {
	eve := func(r *pawl.AuditRow) { r.By = "eve" }
	for _, tamper := range []struct {
		name    string
		do      func(c *client[Tx], op int64)
		without []string // what is found where nothing is sealed
		with    []string
	}{
		{"a chain written anew", func(c *client[Tx], op int64) { c.rewriteChain(op, eve) },
			nil, []string{"operation {op}, row 4: seal 1 has another hash of it"}},
		{"the last taken away, and the head with it", func(c *client[Tx], op int64) { c.shortenChain(op) },
			nil, []string{"operation {op}, row 0: missing at its end, and covered by seal 1: row 4"}},
		{"an operation taken away", func(c *client[Tx], op int64) {
			c.exec(`delete from pawl_audit where operation_id = ?`, op)
			c.exec(`delete from pawl_operation_item where operation_id = ?`, op)
			c.exec(`delete from pawl_operation where id = ?`, op)
		}, nil, []string{"operation {op}, row 0: it is gone, with all its rows: seal 1 covers 4 of them"}},
	} {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sealed %v", tamper.name, sealed), func(t *testing.T) {
				t.Parallel()
				c, op := chained(t, h)
				want := tamper.without
				if sealed {
					c.seal(c.Store.Admin())
					want = tamper.with
				}
				tamper.do(c, op)
				c.wantFaults(tamper.name, c.verify(), op, want...)
			})
		}
	}
}

func (w *world[Tx]) seal(a pawl.Admin) *pawl.AuditSeal {
	w.Helper()
	s, err := a.SealAudit(w.ctx, "billing", now.Add(2*time.Hour))
	if err != nil {
		w.Fatalf("seal: %v", err)
	}
	return s
}

func chainSealTampered[Tx any](t *testing.T, h Harness[Tx]) {
	c, op := chained(t, h)
	c.seal(c.Store.Admin())
	c.pause(c.Store.Admin(), "four")
	c.seal(c.Store.Admin())
	c.wantSound()
	restore := c.backup()
	for _, tamper := range []struct {
		query, undo string
		want        []string
	}{
		{`update pawl_seal set acts = acts + 1 where number = 2`, "", []string{"seal 2: it was changed"}},
		{`update pawl_seal set sealed_at = (select max(at) from pawl_audit) where number = 1`, "", []string{"seal 1: it was changed"}},
		{`update pawl_seal set hash = chain where number = 1`, "", []string{"seal 1: it was changed", "seal 1: it does not follow"}},
		{`update pawl_seal set number = 3 where number = 2`, "", []string{"seal 3: it follows seal 1", "seal 3: it was changed"}},
		{`update pawl_seal_head set length = 2 where operation_id = 0 and length = 3`,
			`update pawl_seal_head set length = 3 where operation_id = 0 and length = 2`,
			[]string{"seal 1: it was changed", "operation 0, row 2: seal 1 has another hash"}},
		{`update pawl_seal_head set operation_id = 1000 where operation_id = ` + fmt.Sprint(op),
			`update pawl_seal_head set operation_id = ` + fmt.Sprint(op) + ` where operation_id = 1000`,
			[]string{"seal 1: it was changed", "operation 1000, row 0: it is gone"}},
	} {
		c.exec(tamper.query)
		c.wantFaults(tamper.query, c.verify(), op, tamper.want...)
		if tamper.undo != "" {
			c.exec(tamper.undo)
		}
		restore()
	}
	c.exec(`delete from pawl_seal_head where seal_id = (select id from pawl_seal where number = 1)`)
	c.exec(`delete from pawl_seal where number = 1`)
	c.wantFaults("one taken away", c.verify(), op, "seal 2: it follows seal 0", "seal 2: it does not follow")

	w := newWorld(t, h) // guarded
	w.client(binding())
	w.pause(w.Store.Admin(), "one")
	w.seal(w.Store.Admin())
	for _, query := range []string{
		`delete from pawl_seal_head`, `delete from pawl_seal`, `update pawl_seal set acts = 0`, `update pawl_seal_head set length = 0`,
	} {
		if _, err := w.DB.ExecContext(w.ctx, query); err == nil || !strings.Contains(err.Error(), "only ever added to") {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func chainErased[Tx any](t *testing.T, h Harness[Tx]) {
	c, op := chained(t, h)
	c.seal(c.Store.Admin())
	erase := `update pawl_audit set actor = '', why = '', detail = null, salt = null, erased_at = at where operation_id = ? and number = ?`
	c.exec(erase, op, 2)
	c.exec(erase, op, 4)
	v := c.verify()
	c.wantFaults("erased", v, op)
	if got := v.Chains[1]; got.Operation != op || got.Erased != 2 || got.Acts != 4 || got.Sealed != 4 || v.Chains[0].Erased != 0 {
		t.Errorf("chains: %+v", v.Chains)
	}
	c.exec(`update pawl_audit set why = 'other' where operation_id = ? and number = 2`, op) // erased, and made to say something
	c.wantFaults("erased, and with content", c.verify(), op, "operation {op}, row 2: it is marked as erased, and has content")
	c.exec(erase, op, 2)
	c.exec(`update pawl_audit set digest = chain where operation_id = ? and number = 2`, op)
	c.wantFaults("erased, and with another digest", c.verify(), op, "operation {op}, row 2: it does not follow the row before")
}

func chainOld[Tx any](t *testing.T, h Harness[Tx]) {
	w := &world[Tx]{TB: t, Fixture: h.Bare(t), h: h, ctx: t.Context()}
	for _, m := range h.Migrations()[:5] {
		w.exec(m)
	}
	w.exec(`insert into pawl_consumer (name, cluster, group_name, created_at)
		select 'billing', 'cluster-1', 'billing-group', applied_at from pawl_schema where version = 1`)
	w.exec(`insert into pawl_operation (consumer_id, kind, state, total, rate, canary, filter, actor, why, asked_at, resumed_at)
		select id, 'replay', 'running', 1, 0, 0, '{}', 'ops', 'ticket 7', created_at, created_at from pawl_consumer`)
	old := `insert into pawl_audit (consumer_id, operation_id, what, actor, why, at, detail)
		select consumer_id, %s, 'start replay', 'ops', 'ticket 7', asked_at, '{"total": 1}' from pawl_operation`
	w.exec(fmt.Sprintf(old, "id"))
	w.exec(fmt.Sprintf(old, "null"))
	if err := w.Migrate(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.client(binding())
	if got := w.wantSound(); got[0] != 0 {
		t.Errorf("chains: %v", got)
	}
	op := w.int(`select id from pawl_operation`)
	if err := w.Store.Admin().SetOperation(w.ctx, op, pawl.OperationPaused, "ops", "lunch", now); err != nil {
		t.Fatal(err)
	}
	w.pause(w.Store.Admin(), "one")
	w.pause(w.Store.Admin(), "two")
	v := w.verify()
	w.wantFaults("migrated", v, op)
	if len(v.Chains) != 2 || v.Chains[0].Old != 1 || v.Chains[0].Acts != 2 || v.Chains[1].Old != 1 || v.Chains[1].Acts != 1 {
		t.Errorf("chains: %+v", v.Chains)
	}
	w.exec(fmt.Sprintf(old, "id")) // as the old ones are, but now
	w.exec(fmt.Sprintf(old, "null"))
	w.wantFaults("added as the old ones were", w.verify(), op, "operation 0, row 0: Pawl has not written it", "operation {op}, row 0: Pawl has not written it")
}

func chainApart[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	const partitions, each = 2, 6
	clients, owned := make([]*client[Tx], partitions), make([]*pawl.Ownership, partitions)
	var ops []int64
	for i := range clients {
		clients[i] = w.another(binding())
		owned[i] = clients[i].acquire(partition(int32(i)), 0)
		for n := range int64(each) {
			p := owned[i].Partition
			clients[i].must(owned[i], blocking, ordered(p, n, fmt.Sprintf("s%d-%d", i, n), fmt.Sprintf("k%d-%d", i, n)))
		}
	}
	for i := range 2 { // each has items of both partitions
		r := request(pawl.OperationReplay)
		for p := range partitions {
			for n := range each / 2 {
				r.Filter.IDs = append(r.Filter.IDs, w.int(`select q.id from pawl_quarantine q join pawl_progress p on p.id = q.progress_id
					where p.partition = ? and q.position_offset = ?`, p, 2*n+i))
			}
		}
		ops = append(ops, w.start(r).ID)
	}
	var tasks [partitions][]pawl.Task
	for i, c := range clients {
		tasks[i] = c.tasks(owned[i])
	}
	meet := barrier(partitions)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			meet()
			for _, next := range tasks[i] {
				if err := c.store.Apply(w.ctx, owned[i], kept(owned[i], c.settle, task(next))); err != nil {
					t.Errorf("apply: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got := w.wantSound(); got[ops[0]] != 1+each || got[ops[1]] != 1+each || len(got) != 2 {
		t.Errorf("chains: %v", got)
	}
}

func chainRace[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.client(binding()).raise(belowLog(partition(0)))
	condition := w.conditions()[0].ID
	const admins, each = 3, 10
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range admins {
		a := w.Second(t).Admin()
		wg.Go(func() {
			for n := range each {
				w.pause(a, fmt.Sprint(n))
				if err := a.Resolve(w.ctx, condition, answer(int64(n))); err != nil {
					t.Errorf("answer: %v", err)
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			w.seal(w.Store.Admin())
		}
		if v := w.verify(); !v.OK() {
			t.Fatalf("found: %s", faults(v))
		}
	}
	if got := w.wantSound(); got[0] != 2*admins*each {
		t.Errorf("chains: %v", got)
	}
}

func chainSeals[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	admin := w.Store.Admin()
	if s := w.seal(admin); s.Number != 0 || len(w.verify().Seals) != 0 {
		t.Errorf("a seal over nothing: %+v", s)
	}
	c.spoiled(c.acquire(partition(0), 0), 3)
	op := w.start(request(pawl.OperationArchive))
	w.pause(admin, "one")
	first := w.seal(admin)
	if first.Number != 1 || first.Acts != 5 || len(first.Heads) != 2 || len(first.Chain) != 32 || !first.At.Equal(now.Add(2*time.Hour)) {
		t.Errorf("first: %+v", first)
	}
	if again := w.seal(admin); again.Number != 1 || !bytes.Equal(again.Chain, first.Chain) || !again.At.Equal(first.At) {
		t.Errorf("again: %+v", again)
	}
	if v := w.verify(); v.Chains[0].Sealed != 1 || v.Chains[1].Sealed != 4 {
		t.Errorf("chains: %+v", v.Chains)
	}
	w.pause(admin, "two")
	w.pause(admin, "three")
	second := w.seal(admin)
	if second.Number != 2 || second.Acts != 7 || len(second.Heads) != 1 || second.Heads[0].Operation != 0 || second.Heads[0].Length != 3 {
		t.Errorf("second: %+v", second)
	}
	w.pause(admin, "four")
	v := w.verify()
	w.wantFaults("sealed twice", v, op.ID)
	if len(v.Seals) != 2 || v.Chains[0].Sealed != 3 || v.Chains[0].Acts != 4 {
		t.Errorf("seals %+v, chains %+v", v.Seals, v.Chains)
	}
	for _, s := range []*pawl.AuditSeal{first, second} {
		if found := v.Seal(strings.ToUpper(hex.EncodeToString(s.Chain))); found == nil || found.Number != s.Number {
			t.Errorf("seal %d is not found by its hash: %+v", s.Number, found)
		}
	}
	if found := v.Seal(strings.Repeat("0", 64)); found != nil {
		t.Errorf("a hash that is none: %+v", found)
	}
	if _, err := admin.SealAudit(w.ctx, "nobody", now); err == nil || !strings.Contains(err.Error(), "find consumer nobody") {
		t.Errorf("of nobody: %v", err)
	}
}

func chainSealRace[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.client(binding())
	admins := []pawl.Admin{w.Store.Admin(), w.Second(t).Admin(), w.Second(t).Admin()}
	meet := barrier(len(admins))
	var wg sync.WaitGroup
	for _, a := range admins {
		wg.Go(func() {
			meet()
			for n := range 5 {
				w.pause(a, fmt.Sprint(n))
				if _, err := a.SealAudit(w.ctx, "billing", now); err != nil {
					t.Errorf("seal: %v", err)
				}
			}
		})
	}
	wg.Wait()
	w.wantSound()
	v := w.verify()
	if n := len(v.Seals); n == 0 || v.Seals[n-1].Acts != 15 || v.Chains[0].Sealed != 15 {
		t.Errorf("seals: %+v", v.Seals)
	}
}

func chainUndone[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 2)
	op := w.start(request(pawl.OperationReplay))
	tasks := c.tasks(o)
	c.must(o, c.settle, task(tasks[0]))
	c.refused(pawl.ErrNotKept, o, kept(o, c.settle, task(tasks[1]), task(tasks[0]))) // the second act of the two fails
	if got := w.wantSound(); got[op.ID] != 2 {
		t.Errorf("chains: %v", got)
	}
	c.must(o, c.settle, task(tasks[1]))
	if got := w.wantSound(); got[op.ID] != 3 {
		t.Errorf("chains: %v", got)
	}
}
