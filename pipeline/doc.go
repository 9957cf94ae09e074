// Package pipeline reads pipelines that are declared in YAML, and makes routes, effects and a configuration of them.
//
// [Load] reads files and folders, and finds everything that is wrong with them in one go: what is not YAML, what is no key of
// the file's [Schema], expressions that do not compile, and combinations that would be unsafe. Each [Finding] has a place, a
// rule and, where there is one, a suggestion. What has errors does not run.
//
// # Expressions
//
// Most values of an event are plain paths, which cost nothing: $.a.b of the document, event.id of what the event section
// found, headers.name, and meta.key, meta.topic and meta.timestamp of the record. A type around a path says what it must be: int($.n),
// decimal($.amount), timestamp($.at), bool($.ok), json($.lines). Everything else is CEL. Numbers are exact: there are no
// floats, and a number with a fraction is a decimal. What is missing is an error, and an error sets the record aside: there is
// no default that nobody asked for. $.?a is what may be missing.
//
// # Variables
//
// ${NAME}, ${NAME:-default}, ${NAME:?message} and ${file:/path} are replaced within a scalar, after the file was parsed: a
// value can never add a key. $$ is a dollar sign.
//
// # Fixtures
//
// [Test] runs cases, written in YAML beside the pipelines, against a database that it makes for each of them.
package pipeline
