// Package postgres keeps claims, evidence, quarantine and positions in PostgreSQL (15 or later), beside the effects.
//
// [New] is for handlers on pgx; [NewSQL] is for teams that use database/sql, with any driver. Both run the same
// transaction with the same SQL (sql/apply.sql, read with apply.go); only how statements travel differs: pgx sends those
// that need no answer in between as one round trip.
//
// Migrate creates the tables; [Migrations] prints them for those who use a migration tool of their own. Nothing needs a
// session, so a pooling proxy in transaction mode works; behind one that knows no prepared statements, give pgx the query
// mode exec or cache_describe, as for any other program.
package postgres
