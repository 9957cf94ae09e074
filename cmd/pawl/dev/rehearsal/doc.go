// Package rehearsal is what `pawl dev FILE` plays: pipelines of the user's own, on hostile traffic that is made of the records in
// their fixtures.
//
// What must become of that traffic is not known from a model, as it is for the sample: it is what a quiet run of the same pipelines
// makes of it. The topic is read again by plain means, copies are left out by comparing keys and contents here, and the rest goes
// through one process and a new database, with nothing killed and nothing sent twice. So the check shows whatever kills, copies,
// restarts and rebalances have changed. It does not show that the file says what its author means: fixtures are for that.
package rehearsal
