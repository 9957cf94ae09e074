package main

import (
	"strings"
	"testing"
)

func TestSummarizeShowsFailuresWholeAndPassesAsOneLine(t *testing.T) {
	in := strings.Join([]string{
		`{"ImportPath":"a/broken","Action":"build-output","Output":"broken.go:1: no\n"}`,
		`{"Action":"run","Package":"a","Test":"TestGood"}`,
		`{"Action":"output","Package":"a","Test":"TestGood","Output":"chatter\n"}`,
		`{"Action":"pass","Package":"a","Test":"TestGood"}`,
		`{"Action":"output","Package":"a","Output":"PASS\n"}`,
		`{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}`,
		`{"Action":"pass","Package":"a"}`,
		`{"Action":"output","Package":"b","Test":"TestBad","Output":"=== RUN   TestBad\n"}`,
		`{"Action":"output","Package":"b","Test":"TestBad","Output":"want 1, got 2\n"}`,
		`{"Action":"fail","Package":"b","Test":"TestBad"}`,
		`{"Action":"output","Package":"b","Test":"TestSkip","Output":"    b_test.go:3: no kafka\n"}`,
		`{"Action":"output","Package":"b","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}`,
		`{"Action":"skip","Package":"b","Test":"TestSkip"}`,
		`{"Action":"output","Package":"b","Output":"FAIL\tb\t0.1s\n"}`,
		`{"Action":"fail","Package":"b"}`,
		`not an event`,
		`{"Action":"output","Package":"c","Test":"TestHangs","Output":"killed here\n"}`,
	}, "\n")
	var out, counts strings.Builder
	if err := summarize(strings.NewReader(in), &out, &counts); err != nil {
		t.Fatal(err)
	}
	wantOut := "broken.go:1: no\nok  \ta\t0.1s\nwant 1, got 2\nFAIL\tb\t0.1s\nnot an event\nkilled here\n"
	if out.String() != wantOut {
		t.Errorf("output:\n%s\nwant:\n%s", out.String(), wantOut)
	}
	wantCounts := "pass\ta\tTestGood\t\nfail\tb\tTestBad\t\nskip\tb\tTestSkip\tb_test.go:3: no kafka\n"
	if counts.String() != wantCounts {
		t.Errorf("counts:\n%s\nwant:\n%s", counts.String(), wantCounts)
	}
}
