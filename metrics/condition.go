package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/pawlhq/pawl"
)

// conditions are the ones raised by this process, and the partitions that it has.
type conditions struct {
	*sync.Mutex
	has map[pawl.Partition]bool
	all map[condition]bool
}

type condition struct {
	partition pawl.Partition
	state     pawl.State
}

func newConditions() conditions {
	return conditions{new(sync.Mutex), map[pawl.Partition]bool{}, map[condition]bool{}}
}

func (c conditions) assigned(p pawl.Partition) {
	c.Lock()
	defer c.Unlock()
	c.has[p] = true
}

// ended drops what was raised for a partition: from here on its next owner tells. It reports whether the partition was had.
func (c conditions) ended(p pawl.Partition) bool {
	c.Lock()
	defer c.Unlock()
	maps.DeleteFunc(c.all, func(of condition, _ bool) bool { return of.partition == p })
	had := c.has[p]
	delete(c.has, p)
	return had
}

func (c conditions) raised(r pawl.Condition) {
	c.Lock()
	defer c.Unlock()
	c.all[condition{r.Partition, r.State}] = true
}

func (c conditions) cleared(p pawl.Partition, s pawl.State) {
	c.Lock()
	defer c.Unlock()
	delete(c.all, condition{p, s})
}

// list leaves out what is raised for partitions that this process does not have (yet, or any more). Where a topic was made
// again there are for a while two partitions of one name: a series is told once. whole is what the consumer itself is, if
// it settles nothing.
func (c conditions) list() (all []named, whole string) {
	c.Lock()
	defer c.Unlock()
	seen := map[named]bool{}
	for of := range c.all {
		switch {
		case of.partition.Index != pawl.AllPartitions && !c.has[of.partition]:
			continue
		case of.partition != consumer:
		case of.state.Halts():
			whole = stateLatched
		case of.state == pawl.StatePaused && whole == "":
			whole = statePaused
		}
		seen[named{nameOf(of.partition), of.state}] = true
	}
	return slices.Collect(maps.Keys(seen)), whole
}

// consumer is where a condition of the whole consumer is raised.
var consumer = pawl.Partition{Index: pawl.AllPartitions}

const (
	stateLatched = "latched"
	statePaused  = "paused"
)

type named struct {
	partitionName
	state pawl.State
}
