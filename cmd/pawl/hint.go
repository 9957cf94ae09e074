package main

import "errors"

// hintOf is what to do about something that a database said, where nobody nearer has said so; "" is nothing in particular.
func hintOf(err error) string {
	var state interface{ SQLState() string } // of any driver of PostgreSQL
	if errors.As(err, &state) {
		return stateHints[state.SQLState()]
	}
	var code interface{ Code() int } // of SQLite's driver
	if errors.As(err, &code) {
		return sqliteHints[code.Code()&0xff] // the rest of the code says more than is needed here
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
	5:  "another process writes to this file: try again",                    // SQLITE_BUSY
	8:  "give the process the right to write the file and its folder",       // SQLITE_READONLY
	10: "the disk failed, or is full: look at it, make room, and try again", // SQLITE_IOERR
	11: "the file is damaged: keep a copy, and restore a backup",            // SQLITE_CORRUPT
	13: whyRoom,                                                             // SQLITE_FULL
	14: "give the process the right to write the file and its folder",       // SQLITE_CANTOPEN
}
