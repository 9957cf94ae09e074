// Package metrics tells Prometheus what a runner does.
//
//	m, err := metrics.New(prometheus.DefaultRegisterer, metrics.Config{Consumer: "billing"})
//	r := pawl.NewRunner(store, source, pawl.Config{Consumer: "billing", Hooks: m.Hooks()})
//	m.Watch(r)
//
// Counts come from hooks, after the fact: a decision is counted once its transaction has committed, so that
//
//	received of a route's topics = outcomes of the route + unapplied + given up with a partition
//
// holds for what this process says, as it does for the rows of the store. What is told per partition is asked of the runner
// when it is scraped, so that it ends with the partition. Labels are names that someone has written in a configuration,
// and words of Pawl: never a key, a stream, or the text of an error.
//
// Each metric, and what to alert on, is in docs/signals.md.
package metrics
