package pawl

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Classed marks an error with its class, where a handler knows better than Pawl can.
func Classed(class Class, err error) error { return &marked{class: class, err: err} }

// Overloaded marks an error as the fault of a dependency that has to be spared, such as "payments-api": what needs it waits
// together, and asks with one record at a time whether it is back.
func Overloaded(dependency string, err error) error {
	return &marked{class: Overload, dependency: dependency, err: err}
}

type marked struct {
	class      Class
	dependency string
	err        error
}

func (m *marked) Error() string {
	if m.dependency == "" {
		return m.err.Error()
	}
	return fmt.Sprintf("%s: %v", m.dependency, m.err)
}
func (m *marked) Unwrap() error { return m.err }

// classify says what an error means, by who knows best: the handler that marked it, the user's classifier, the store, and
// last what the error is.
func classify(err error, user, store func(error) Class) Class {
	if m := (*marked)(nil); errors.As(err, &m) {
		return m.class
	}
	if errors.Is(err, ErrTxEnded) {
		return Misconfigured
	}
	if user != nil {
		if c := user(err); c != Unknown {
			return c
		}
	}
	if c := store(err); c != Unknown {
		return c
	}
	return classOfHTTP(err)
}

// classOfHTTP reads the status of an answer, from errors that carry one the way most clients do.
func classOfHTTP(err error) Class {
	var status int
	var plain interface{ StatusCode() int }
	var prefixed interface{ HTTPStatusCode() int }
	switch {
	case errors.As(err, &plain):
		status = plain.StatusCode()
	case errors.As(err, &prefixed):
		status = prefixed.HTTPStatusCode()
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return Overload
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusInternalServerError:
		return Transient
	case http.StatusUnauthorized, http.StatusForbidden:
		return Misconfigured
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Validation
	}
	return Unknown
}

// dependencyOf names what failed with a transient error or under load: where it has no name, and the store does not know the
// error as one of its own, what is needed by the routes that met it. "" is nothing that others would meet as well: two
// transactions that were in each other's way.
func dependencyOf(err error, store func(error) Class, routes string) string {
	if m := (*marked)(nil); errors.As(err, &m) && m.dependency != "" {
		return m.dependency
	}
	var coded interface{ SQLState() string }
	if errors.Is(err, ErrRaced) || errors.As(err, &coded) && (strings.HasPrefix(coded.SQLState(), "40") || coded.SQLState() == "55P03") {
		return ""
	}
	if store(err) == Unknown {
		return "what " + routes + " needs"
	}
	return storeDown
}
