// Package sqlite keeps claims, evidence, quarantine and positions in a SQLite file, beside the effects, without cgo.
//
// [Open] opens the file, [Store.Migrate] creates the tables. The file is in WAL mode with synchronous=FULL: a commit
// that was acknowledged survives a crash and a power cut. Settings that would weaken that are refused, not changed.
//
// # One writer
//
// A store has one connection that writes. Transactions of a store take turns, whatever the number of workers, and take
// turns with those of other processes on the same file (for at most busy_timeout, 5 s where the DSN does not say). A
// handler writes through the transaction it is given. What reaches past it gets an error, never a hang:
//
//   - a write through [Store.DB] fails at once: those connections cannot write;
//   - a read through [Store.DB] does not wait, and sees the state before the transaction;
//   - a write through a handle of the program's own waits for its own busy_timeout and gets SQLITE_BUSY;
//   - COMMIT, ROLLBACK and END as text end in pawl.ErrTxEnded, and nothing of the transaction is kept: the connection
//     lets nothing commit but Pawl.
//
// SQLite itself rolls a transaction back when a write in it is interrupted (a context that ends during the statement), or
// the disk is full. The batch then fails as a whole and is tried again.
//
// # Tables of declared effects
//
// Open refuses columns whose declared type would make something else of a value. [DDL] prints a table that will do: decimal
// numbers, times and JSON are text, so that nothing is rounded; times are written as 2006-01-02T15:04:05.000000Z, which
// sorts, and which SQLite's date functions read. The key needs a unique index over exactly its columns with collation
// binary, or is the rowid.
//
// # What is not promised
//
// A process that is stopped inside a transaction (SIGSTOP, a frozen machine) holds the file's lock until it goes on or
// dies; nobody can take it from outside. The handler's timeout bounds what a handler takes, not that.
//
// POSIX file locks are lost when the program itself opens and closes the database file by other means than SQLite. Where
// several processes share the file, do not do that.
package sqlite
