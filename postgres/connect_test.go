package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/secret"
)

// The driver's own error hides what it takes for the password, which in a text like these may be something else, and has
// the whole text in a field.
func TestAWrongConnectionStringIsNotShown(t *testing.T) {
	const canary = "canary-1c9d"
	for _, dsn := range []string{
		"postgres://u:" + canary + "@h:port/db", "postgres://u:" + canary + "/x@h/db", "host=h port=x password=" + canary,
		"host=h password='" + canary, "password = " + canary + " host=h =", canary, "mysql://u:" + canary + "#@h/db",
	} {
		_, err := Connect(t.Context(), secret.Literal(dsn))
		if e, ok := errors.AsType[*pawl.Error](err); !ok || e.Class != pawl.Misconfigured || e.Hint == "" {
			t.Errorf("%s: %v", dsn, err)
		}
		for ; err != nil; err = errors.Unwrap(err) {
			if shown := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(shown, canary) {
				t.Errorf("%s is shown: %s", dsn, shown)
			}
		}
	}
	_, err := Connect(t.Context(), secret.Env("PAWL_NOT_SET"))
	if err == nil || !strings.Contains(err.Error(), "${env:PAWL_NOT_SET}") {
		t.Errorf("got %v", err)
	}
}
