package pawl

import (
	"context"
	"fmt"
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

// oneLong decodes most records to one stream, and each fifth to one of others.
type oneLong struct{}

func (oneLong) Decode(m Meta, _ []byte) (Decoded[int64], error) {
	d, err := offsetOf{}.Decode(m, nil)
	if d.Identity.Stream = "long"; d.Body%5 == 0 {
		d.Identity.Stream = fmt.Sprint(d.Body % 4)
	}
	return d, err
}

// Of many records that were held in a stream, some waited in memory while the next came, and those were put before them.
func TestHeldRecordsOfAStreamStayInOrder(t *testing.T) {
	const held = 300
	store := newDeskStore()
	for i, rec := range recordsOf(Partition{Topic: "t"}, 0, held) {
		store.tasks = append(store.tasks, Task{Act: ActReplay, Kept: Kept{Hold: int64(i + 1)}, Record: rec})
	}
	atDesk(t, store, Config{Workers: 4}, func(r *Runner[int]) {
		Handle(r, Route{Name: "r", Topics: []string{"t"}, Order: OrderStream, Quarantine: QuarantineStream}, Decoder[int64](oneLong{}),
			func(context.Context, int, Envelope[int64]) error { time.Sleep(10 * time.Millisecond); return nil })
	}, func(d *desk) {
		d.assign("t")
		d.pass(time.Minute)
		if len(store.applied) != held {
			d.t.Errorf("%d of %d were released", len(store.applied), held)
		}
		last := int64(0)
		for _, offset := range store.applied {
			if offset%5 == 0 {
				continue
			}
			if last > offset {
				d.t.Fatalf("%d took effect after %d", offset, last)
			}
			last = offset
		}
	})
}
