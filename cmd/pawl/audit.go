package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

func (a *app) auditCommand() *cobra.Command {
	return group("audit", "Whether what operators did is still recorded as it was", a.auditVerifyCommand(), a.auditSealCommand())
}

type auditView struct {
	OK        bool                `json:"ok"`
	Expected  *expectedView       `json:"expected,omitempty"`
	Consumers []auditConsumerView `json:"consumers"`
}

type expectedView struct {
	Hash     string    `json:"hash"`
	Found    bool      `json:"found"`
	Consumer string    `json:"consumer,omitempty"`
	Seal     *sealView `json:"seal,omitempty"`
}

type auditConsumerView struct {
	Consumer string      `json:"consumer"`
	OK       bool        `json:"ok"`
	Chains   []chainView `json:"chains"`
	Seals    int         `json:"seals"`
	LastSeal *sealView   `json:"lastSeal"`
	Faults   []faultView `json:"faults"` // of the seals
}

type chainView struct {
	Operation int64       `json:"operation,omitempty"` // none: the consumer's own
	OK        bool        `json:"ok"`
	Acts      int64       `json:"acts"`
	Sealed    int64       `json:"sealed"`
	Erased    int64       `json:"erased"`
	Unchained int64       `json:"unchained"`
	First     *time.Time  `json:"first"`
	Last      *time.Time  `json:"last"`
	Faults    []faultView `json:"faults"`
}

type faultView struct {
	Row    int64  `json:"row,omitempty"`
	Number int64  `json:"number,omitempty"`
	What   string `json:"what"`
}

type sealView struct {
	Number int64      `json:"number"`
	At     *time.Time `json:"at"`
	Acts   int64      `json:"acts"`
	Hash   string     `json:"hash"`
}

func (a *app) sealView(s *pawl.AuditSeal) *sealView {
	return &sealView{s.Number, a.stamp(s.At), s.Acts, hex.EncodeToString(s.Chain)}
}

func (a *app) auditConsumerView(v *pawl.AuditVerdict) auditConsumerView {
	view := auditConsumerView{Consumer: v.Consumer, OK: v.OK(), Chains: []chainView{}, Seals: len(v.Seals), Faults: faultViews(v.Faults)}
	for _, c := range v.Chains {
		view.Chains = append(view.Chains, chainView{
			c.Operation, len(c.Faults) == 0, c.Acts, c.Sealed, c.Erased, c.Old, a.stamp(c.First), a.stamp(c.Last), faultViews(c.Faults),
		})
	}
	if n := len(v.Seals); n > 0 {
		view.LastSeal = a.sealView(&v.Seals[n-1])
	}
	return view
}

func faultViews(faults []pawl.AuditFault) []faultView {
	all := []faultView{}
	for _, f := range faults {
		all = append(all, faultView(f))
	}
	return all
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var name, expect string
	cmd := &cobra.Command{
		Use: "verify", Short: "Compute every hash of the audit anew", Args: cobra.NoArgs,
		Long: `Compute every hash of the audit anew, and say for each chain whether a row was changed, moved, put in or taken away. Each
operation has a chain; what was done without one is in the chain of its consumer. Ends with exit code 3 where something is
broken.

A row whose content was erased counts as erased, and not as broken. Rows from before there were chains are counted, and
nothing is said about them.

Whoever owns the database could write everything anew, hashes and all. Keep the hash of a seal elsewhere: with --expect, it
must be that of a seal that is still there, so that nothing before it can have been rewritten.`,
		Example: "  pawl audit verify\n  pawl audit verify --expect 6c1f… -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b, err := hex.DecodeString(expect); expect != "" && (err != nil || len(b) != 32) {
				return usage("--expect %q is no hash of a seal: it has 64 digits", expect)
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				v := auditView{OK: true, Consumers: []auditConsumerView{}}
				if expect != "" {
					v.Expected = &expectedView{Hash: strings.ToLower(expect)}
				}
				for _, c := range of {
					verdict, err := pawl.VerifyAudit(ctx, s.admin, c.Name)
					if err != nil {
						return err
					}
					v.Consumers = append(v.Consumers, a.auditConsumerView(verdict))
					v.OK = v.OK && verdict.OK()
					if found := verdict.Seal(expect); found != nil {
						v.Expected = &expectedView{v.Expected.Hash, true, c.Name, a.sealView(found)}
					}
				}
				v.OK = v.OK && (v.Expected == nil || v.Expected.Found)
				if err := a.printObject("AuditReport", v, func(w io.Writer) { a.writeAudit(w, &v) }); err != nil {
					return err
				}
				if !v.OK {
					return &exitError{exitFindings, nil}
				}
				return nil
			})
		},
	}
	a.consumerFlag(cmd, &name, anyConsumer)
	cmd.Flags().StringVar(&expect, "expect", "", "the hash of a seal, kept elsewhere: it must still be there")
	return cmd
}

// chainLine is a line of the table.
type chainLine struct {
	consumer string
	chainView
}

func (a *app) chainColumns() []column[chainLine] {
	number := func(n int64) string { return fmt.Sprint(n) }
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return a.at(*t)
	}
	return []column[chainLine]{
		{name: "consumer", of: func(l chainLine) string { return l.consumer }},
		{name: "chain", of: func(l chainLine) string { return chainName(l.Operation) }},
		{name: "acts", of: func(l chainLine) string { return number(l.Acts) }},
		{name: "sealed", of: func(l chainLine) string { return number(l.Sealed) }},
		{name: "first", of: func(l chainLine) string { return at(l.First) }},
		{name: "last", of: func(l chainLine) string { return at(l.Last) }},
		{name: "state", of: func(l chainLine) string {
			state := "ok"
			if !l.OK {
				state = "broken"
			}
			if l.Erased > 0 {
				state += fmt.Sprintf(", %d erased", l.Erased)
			}
			if l.Unchained > 0 {
				state += fmt.Sprintf(", %d from before there were chains", l.Unchained)
			}
			return state
		}, color: func(l chainLine) string {
			if !l.OK {
				return red
			}
			return green
		}},
	}
}

func chainName(operation int64) string {
	if operation == 0 {
		return "consumer"
	}
	return fmt.Sprintf("operation %d", operation)
}

func (a *app) writeAudit(w io.Writer, v *auditView) {
	var lines []chainLine
	for _, c := range v.Consumers {
		for _, chain := range c.Chains {
			lines = append(lines, chainLine{c.Consumer, chain})
		}
	}
	if len(lines) > 0 {
		io.WriteString(w, tableText(a, lines, a.chainColumns())+"\n")
	}
	for _, c := range v.Consumers {
		for _, f := range c.Faults {
			fmt.Fprintf(w, "%s, %s\n", c.Consumer, f.What)
		}
		for _, chain := range c.Chains {
			for _, f := range chain.Faults {
				at := c.Consumer + ", " + chainName(chain.Operation)
				if f.Number != 0 {
					at += fmt.Sprintf(", row %d", f.Number)
				}
				if f.Row != 0 {
					at += fmt.Sprintf(" (id %d)", f.Row)
				}
				fmt.Fprintf(w, "%s: %s\n", at, f.What)
			}
		}
	}
	for _, c := range v.Consumers {
		if c.LastSeal == nil {
			fmt.Fprintf(w, "%s: no seal\n", c.Consumer)
			continue
		}
		fmt.Fprintf(w, "%s: %s\n", c.Consumer, a.sealLine(c.LastSeal))
	}
	switch e := v.Expected; {
	case e == nil:
	case e.Found:
		fmt.Fprintf(w, "the seal that was expected is there: %s, seal %d of %s\n", e.Consumer, e.Seal.Number, a.at(*e.Seal.At))
	default:
		fmt.Fprintf(w, "the seal that was expected is not there: no seal has the hash %s\n", e.Hash)
	}
}

func (a *app) sealLine(s *sealView) string {
	return fmt.Sprintf("seal %d of %s, over %s: %s", s.Number, a.at(*s.At), plural(int(s.Acts), "act"), s.Hash)
}

func (a *app) auditSealCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "seal", Short: "Seal what operators did since the last seal", Args: cobra.NoArgs,
		Long: `Seal what operators did since the last seal, and print the hash of the seal, to be kept elsewhere: see pawl audit verify
--expect. It adds a seal and changes nothing else, so it needs no --execute. Where nothing was done since, the last seal is
printed.

pawl run seals by itself, once an hour, and logs the hash ("audit sealed"). This is for consumers that do not run, and for
whoever wants the hash of what was done up to now.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				l := listing[sealLine]{kind: "AuditSeal", empty: "nothing was done that could be sealed", columns: []column[sealLine]{
					{name: "consumer", of: func(l sealLine) string { return l.Consumer }},
					{name: "seal", of: func(l sealLine) string { return fmt.Sprint(l.Number) }},
					{name: "at", of: func(l sealLine) string { return a.at(*l.At) }},
					{name: "acts", of: func(l sealLine) string { return fmt.Sprint(l.Acts) }},
					{name: "hash", of: func(l sealLine) string { return l.Hash }},
				}}
				for _, c := range of {
					seal, err := s.admin.SealAudit(ctx, c.Name, a.now())
					if err != nil {
						return err
					}
					if seal.Number > 0 {
						l.items = append(l.items, sealLine{c.Name, *a.sealView(seal)})
					}
				}
				return printList(a, l)
			})
		},
	}
	a.consumerFlag(cmd, &name, anyConsumer)
	return cmd
}

type sealLine struct {
	Consumer string `json:"consumer"`
	sealView
}
