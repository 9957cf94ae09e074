package pawl

import (
	"context"
	"testing"
	"time"
)

// slowDecoder says when it has begun, and waits.
type slowDecoder struct{ begun, goOn chan struct{} }

func (d slowDecoder) Decode(m Meta, v []byte) (Decoded[int64], error) {
	d.begun <- struct{}{}
	<-d.goOn
	return offsetOf{}.Decode(m, v)
}

// A partition that was taken away while its records were being decoded ended the process: they were put in streams that
// were gone.
func TestAPartitionIsTakenAwayWhileItIsDecoded(t *testing.T) {
	var dec slowDecoder
	atDesk(t, newDeskStore(), Config{}, func(r *Runner[int]) {
		dec = slowDecoder{make(chan struct{}), make(chan struct{})}
		Handle(r, Route{Name: "r", Topics: []string{"t"}, Order: OrderStream}, Decoder[int64](dec),
			func(context.Context, int, Envelope[int64]) error { return nil })
	}, func(d *desk) {
		p, _ := d.assign("t")
		d.in.Take(p, recordsOf(p, 0, 1))
		<-dec.begun
		d.in.Lose([]Partition{p})
		close(dec.goOn)
		d.pass(time.Second)
	})
}
