package pipeline

// linter looks at all files together.
type linter struct {
	set   *Set
	files []*loaded
}

func (l *linter) add(f *loaded) { l.files = append(l.files, f) }

func (l *linter) lint() {
	for _, f := range l.files {
		if f.Store != nil {
			l.set.Store = f.Store
		}
		if f.Kafka != nil {
			l.set.Kafka = f.Kafka
		}
		for _, p := range f.Pipelines {
			l.set.Pipelines = append(l.set.Pipelines, p)
		}
	}
}
