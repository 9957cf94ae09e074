package pipeline

import (
	"slices"
)

// Contract is what a pipeline promises, as a reviewer asks for it. It follows from the file alone.
type Contract struct {
	Pipeline    string      `json:"pipeline"`
	Owner       string      `json:"owner"`
	Description string      `json:"description,omitempty"`
	Terms       []Term      `json:"terms"`
	Checklists  []Checklist `json:"checklists"`
}

// Term is one line of a contract.
type Term struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Checklist is a list of points that is gone through before a consumer is approved.
type Checklist struct {
	Title  string  `json:"title"`
	Points []Point `json:"points"`
}

// Point is one point of a checklist.
type Point struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Basis    Basis  `json:"basis"`
	Todo     string `json:"todo,omitempty"` // what closes it, where it is open
}

// Basis is what an answer rests on.
type Basis string

const (
	ByPawl   Basis = "pawl"   // it holds for every pipeline
	ByFile   Basis = "file"   // it follows from this pipeline's declaration
	ByDoctor Basis = "doctor" // only the cluster knows: pawl doctor looks
	Open     Basis = "open"   // nobody has said
)

// Open lists the points that are open. A question that is asked in several lists is open in each.
func (c *Contract) Open() []Point {
	var open []Point
	for _, l := range c.Checklists {
		for _, p := range l.Points {
			if p.Basis == Open {
				open = append(open, p)
			}
		}
	}
	return open
}

// Coverage is how far a pipeline is covered by fixtures.
type Coverage struct {
	Cases int // that are written down
	Again int // of which so many deliver a record a second time
}

// Coverage counts the cases of the set's fixtures by pipeline. What cannot be read counts as none: [Test] says why.
func (s *Set) Coverage(env Env) map[string]Coverage {
	all := map[string]Coverage{}
	s.eachCase(env, func(_ *binder, p *Pipeline, one *fixture) {
		c := all[p.Name]
		c.Cases++
		// The same event written out twice says that the second is a duplicate, and is held to it.
		if slices.ContainsFunc(one.Records, func(r *record) bool { return r.Again > 0 || r.Outcome == "duplicate" }) {
			c.Again++
		}
		all[p.Name] = c
	})
	return all
}

// NewContract derives the contract of a pipeline that was loaded without faults.
func NewContract(p *Pipeline, covered Coverage) *Contract {
	d := &drafter{Pipeline: p, covered: covered}
	return &Contract{
		Pipeline: p.Name, Owner: p.Owner, Description: p.Description, Terms: d.terms(),
		Checklists: []Checklist{d.production(), d.correctness(), d.review(), d.approval()},
	}
}
