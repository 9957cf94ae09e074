// Package postgres keeps claims, evidence, quarantine and positions in PostgreSQL (15 or later), beside the effects.
//
// [New] is for handlers on pgx; [NewSQL] is for teams that use database/sql, with any driver. Both run the same
// transaction with the same SQL (sql/apply.sql, read with apply.go); only how statements travel differs: pgx sends those
// that need no answer in between as one round trip.
//
// Migrate creates the tables; [Migrations] prints them for those who use a migration tool of their own. Nothing needs a
// session, so a pooling proxy in transaction mode works; behind one that knows no prepared statements, give pgx the query
// mode exec or cache_describe, as for any other program.
//
// # Tables of declared effects
//
// Open looks them up in the catalog and refuses what would not keep every value as it is. [DDL] prints a table that will do.
//
//   - text: text, varchar, char, citext, uuid, an enum; char keeps no spaces at the end
//   - int: bigint, integer, smallint, numeric
//   - decimal: numeric, or text; a number with more digits behind the point than the column has is the record's fault, and
//     not rounded; never a floating-point type
//   - bool: boolean
//   - time: timestamptz; not timestamp, which does not say of which zone, and not less than microseconds
//   - json: jsonb, json, or text
//   - bytes: bytea
//
// A domain counts as the type below it. The key needs a unique index over exactly its columns, and is neither decimal nor
// json: one value would have many spellings. The role needs select, insert and update, and delete where rows are deleted.
package postgres
