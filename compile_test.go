package pawl_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestAHandlerWithTheWrongTransactionDoesNotCompile(t *testing.T) {
	out, err := exec.Command("go", "build", "-o", "/dev/null", "./testdata/wrongtx").CombinedOutput()
	if err == nil {
		t.Fatal("it compiles")
	}
	if !strings.Contains(string(out), "main.go:18") || !strings.Contains(string(out), "pgx.Tx") {
		t.Errorf("it fails for another reason:\n%s", out)
	}
}
