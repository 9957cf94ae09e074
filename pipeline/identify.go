package pipeline

import "github.com/pawlhq/pawl"

// Identify says what a record is to this pipeline, or why it does not decode.
func (p *Pipeline) Identify(r *pawl.Record) (pawl.Identity, error) {
	d, err := p.decoder.Decode(pawl.NewMeta(r), r.Value)
	return d.Identity, err
}
