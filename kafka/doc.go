// Package kafka is the [pawl.Source] for Kafka and everything that speaks its protocol.
//
// # An assignment
//
// The group hands out partitions. Each time it does, a partition gets a new assignment object, which goes one way:
//
//	assigned ──► open ──► closed ──► ended
//	   │                    ▲
//	   └────────────────────┘
//
// In order:
//
//   - assigned: the topic id and the bounds of the log have been read, and the intake is asked where to start.
//   - open: the client reads from that offset. Records are handed over, flow is steered, offsets are committed.
//   - closed: the partition is being taken away. No record is handed over any more and flow does nothing. If it is
//     taken away in good order, the intake drains and commits now.
//   - ended: commits are dropped. The object is forgotten.
//
// A partition that comes back is a new object, so a worker that finishes late cannot commit in the name of the new
// assignment.
//
// # Who may commit
//
// Kafka checks that a commit comes from a current member, not that the member owns the partition. So the check is here:
// a commit counts only for an assignment that has not ended, and only under the member id that the assignment was made
// for. A member that was expelled and let in again under a new id is told of the partitions it had as if it were giving
// them back in good order: they are treated as lost, and nothing is committed for them. What the group leaves it
// is not named by any callback: it is found at the beginning of the session, and starts over as another assignment.
//
// # Where reading starts
//
// The intake decides, from its store; it is told the offset that the group has committed, and the metadata beside it, which
// show whether Pawl committed it or someone has reset it. An offset that the log does not
// have ends Run with an error: a client left to itself would move to one that exists, or wait until the log has grown
// past it, and either way skip records without a word. For the same reason the leader epoch is never given.
//
// # Failure
//
// What the client can repair (brokers that come and go, moved leaders, rebalances) it repairs, and the assignment goes
// on or ends as lost. An error of a partition that it cannot repair stops that partition at once and ends Run. A commit
// that fails is reported and not tried again: it may have been stored, and a later one says more.
//
// # Not promised
//
// That a partition is read by one member at a time. Kafka does not promise it either; the store's fence does.
package kafka
