package kafka

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logger passes the client's warnings and errors on.
type logger struct{ to *slog.Logger }

var _ kgo.Logger = logger{}

// Level implements kgo.Logger.
func (logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if level == kgo.LogLevelError {
		l.to.Error("kafka: "+msg, keyvals...)
		return
	}
	l.to.Warn("kafka: "+msg, keyvals...)
}
