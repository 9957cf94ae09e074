package main

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
)

type leftView struct {
	ID  int64  `json:"id"`
	Why string `json:"why"`
}

// left says of each record that was named and would not be in an operation why that is. Records that a filter leaves out are
// not named.
func (a *app) left(ctx context.Context, s *storage, r pawl.OperationRequest) ([]leftView, error) {
	var all []leftView
	for _, id := range r.Filter.IDs {
		why, err := a.whyLeft(ctx, s, r, id)
		if err != nil {
			return nil, err
		}
		if why != "" {
			all = append(all, leftView{id, why})
		}
	}
	return all, nil
}

func (a *app) whyLeft(ctx context.Context, s *storage, r pawl.OperationRequest, id int64) (string, error) {
	free, err := isFreeFor(ctx, s, r, id)
	if free || err != nil {
		return "", err
	}
	all, err := s.admin.Consumers(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range all {
		found, err := s.admin.Quarantine(ctx, c.Name, pawl.QuarantineFilter{IDs: []int64{id}, Status: pawl.QuarantineAny}, 1, 0)
		switch {
		case err != nil:
			return "", err
		case len(found) == 0:
			continue
		case c.Name != r.Consumer:
			return "it is of " + c.Name, nil
		case found[0].Status != pawl.QuarantineOpen:
			return "it is " + found[0].Status, nil
		}
		only := r
		only.Filter = pawl.QuarantineFilter{}
		if free, err := isFreeFor(ctx, s, only, id); err != nil || free {
			return "the other filters leave it out", err
		}
		return "it is in another operation: pawl operations list", nil
	}
	return "there is none", nil
}

// isFreeFor reports whether a record would be in an operation.
func isFreeFor(ctx context.Context, s *storage, r pawl.OperationRequest, id int64) (bool, error) {
	r.By, r.Why, r.Limit, r.Filter.IDs = "plan", "plan", 0, []int64{id}
	n, err := s.admin.Plan(ctx, r)
	return n > 0, err
}

// sample is the first records that would be in an operation. Those that another one has are passed over, up to a point.
func (a *app) sample(ctx context.Context, s *storage, r pawl.OperationRequest, count int) ([]sampleView, error) {
	all := []sampleView{}
	const most = 200
	looked, after := 0, int64(0)
	for len(all) < min(count, mostSampled) && looked < most {
		found, err := s.admin.Quarantine(ctx, r.Consumer, r.Filter, mostSampled, after)
		if err != nil || len(found) == 0 {
			return all, err
		}
		for _, q := range found {
			after = q.ID
			looked++
			free, err := isFreeFor(ctx, s, r, q.ID)
			if err != nil {
				return nil, err
			}
			if free && len(all) < min(count, mostSampled) {
				all = append(all, sampleView{
					q.ID, q.Route, q.Cause, position(q.Partition.Topic, q.Partition.Index, q.Offset), q.Stream, q.Key, q.Reason,
				})
			}
		}
	}
	return all, nil
}

// noteLeft tells a person what is not done, and why.
func (a *app) noteLeft(left []leftView) {
	for i, l := range left {
		if i == 10 {
			a.note("… and %d more", len(left)-i)
			return
		}
		a.note("%s", printable(fmt.Sprintf("record %d is left out: %s", l.ID, l.Why)))
	}
}
