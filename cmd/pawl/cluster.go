package main

import (
	"log/slog"
	"strings"

	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/pipeline"
)

// cluster is which Kafka is meant.
type cluster struct {
	kafka *pipeline.Kafka
	asked bool // by flag or environment: that it does not answer is then an error
}

// cluster finds out which is meant: flag, then environment, then file. Nil is none.
func (a *app) cluster(brokers []string) (*cluster, error) {
	if len(brokers) == 0 && a.env("PAWL_BROKERS") != "" {
		brokers = strings.Split(a.env("PAWL_BROKERS"), ",")
	}
	var k *pipeline.Kafka
	if a.named() {
		set, err := a.load(nil)
		if err != nil && len(brokers) == 0 {
			return nil, err
		}
		if err == nil {
			k = set.Kafka
		}
	}
	switch {
	case k == nil && len(brokers) == 0:
		return nil, nil
	case k == nil:
		k = &pipeline.Kafka{}
	}
	c := &cluster{kafka: k, asked: len(brokers) > 0}
	if c.asked {
		with := *k // its logins go with it
		with.Brokers = brokers
		c.kafka = &with
	}
	return c, nil
}

// source is for looking from outside a group, in silence.
func (c *cluster) source(group string) *kafka.Source {
	cfg := c.kafka.Source(&pipeline.Pipeline{})
	cfg.Group, cfg.Instance, cfg.Logger = group, "", slog.New(slog.DiscardHandler)
	return kafka.New(cfg)
}
