package main

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// hintOf is what to do about something that a database said, where nobody nearer has said so; "" is nothing in particular.
func hintOf(err error) string {
	var state interface{ SQLState() string } // of any driver of PostgreSQL
	if errors.As(err, &state) {
		return stateHints[state.SQLState()]
	}
	if failed, ok := errors.AsType[*sqlite.Error](err); ok {
		return sqliteHints[failed.Code()&0xff] // the rest of the code says more than is needed here
	}
	return ""
}

const (
	whyRights = "this role has no right to do that: pawl doctor names those that running needs; pawl migrate up needs to create tables too"
	whyRoom   = "make room on the disk and try again: nothing was half written"
)

// stateHints are by SQLSTATE.
var stateHints = map[string]string{
	"42501": whyRights,
	"25006": "this server cannot be written, as a standby: connect to the primary",
	"28000": "this role may not log in: check its name, and pg_hba.conf of the server",
	"28P01": "the password is wrong: check the secret",
	"3D000": "check the name of the database, or create it",
	"3F000": "check the name of the schema, or create it",
	"53100": whyRoom,
	"53300": "the server has no connection left: raise max_connections, or run fewer processes or workers; pawl doctor adds them up",
	"57P03": "the server is starting or stopping: try again",
}

// sqliteHints are by SQLite's primary result code.
var sqliteHints = map[int]string{
	sqlite3.SQLITE_BUSY:     "another process writes to this file: try again",
	sqlite3.SQLITE_READONLY: "give the process the right to write the file and its folder",
	sqlite3.SQLITE_CANTOPEN: "give the process the right to write the file and its folder",
	sqlite3.SQLITE_FULL:     whyRoom,
	sqlite3.SQLITE_IOERR:    "the disk failed, or is full: look at it, make room, and try again",
	sqlite3.SQLITE_CORRUPT:  "the file is damaged: keep a copy, and restore a backup",
}
