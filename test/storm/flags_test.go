// Package storm is the real Kafka client and the real runner under rebalance storms, on an embedded broker in fake time.
//
// Fake time needs every wait to be one that testing/synctest knows of, and waiting for a sync.Mutex is none. The Kafka
// client has its own answer, the build tag synctests, under which its mutexes wait in a way that is known. Pawl has two
// mutexes that are held while a commit is on its way. So there are two tests of one name: without the tag, TestStorm builds
// this package with it, and with Pawl's mutexes replaced likewise, and runs that.
//
// A seed decides the script of a storm, not the order in which goroutines meet it: a seed that fails may have to be run a
// few times to fail again.
//
// What the broker cannot do: lose the end of a log (the position is moved beyond it instead, which looks the same), answer
// out of order on one connection (a request is held back and delivered over another instead), time out a static member of
// KIP-848 that has left (it comes back), and remember where the epochs of an empty log ended (no log is truncated to nothing). Unclean leader election and replication need several real brokers.
//
//	go test -race ./test/storm                  the short form
//	PAWL_PROOF=long go test -race ./test/storm  the long form
//	go test ./test/storm -storm.seed=7          one seed; -storm.log prints what its members logged
package storm

import "flag"

var (
	oneSeed   = flag.Int("storm.seed", 0, "run this seed only")
	firstSeed = flag.Int("storm.first", 1, "the first seed to run")
	seedCount = flag.Int("storm.seeds", 0, "how many seeds to run; 0: as many as the form of the proof wants")
	showLog   = flag.Bool("storm.log", false, "print the log of each seed, and not only of those that fail")
)
