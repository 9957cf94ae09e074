package decode

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/pawlhq/pawl"
)

// content gathers what a document says in a form with one spelling. Every value starts with a tag; text and digits are
// preceded by their length, objects and arrays are closed by an end; so the form can be read back, and no two contents
// have one form.
//
//	content = "pawl/json/1\n" value
//	value   = 'z' | 't' | 'f'                          null, true, false
//	        | 's' length bytes                         a string
//	        | ('n' | 'm') length digits exponent       a number from 0, a number below 0: digits × 10^exponent
//	        | '[' value... ']'                         an array
//	        | '{' ('k' length bytes value)... '}'      an object, its members in the order of their names' bytes
//
// NOTE: fingerprints are stored. Another form is another version in the first line, and makes a conflict of every copy
// of an event that was decided under the old one.
//
// Members are written in the order of the document, and objects that are not in order are put in order at the end, all
// in one go: moving the members of each object as it closes would cost the depth times the size.
type content struct {
	buf     []byte
	objects []object // those that may be out of order, by start
	sorted  []member // of the objects out of order, in order
	open    []member // of the objects that are being read, in the order of the document
	out     []byte
}

const contentVersion = "pawl/json/1\n"

const (
	tagNull     = 'z'
	tagTrue     = 't'
	tagFalse    = 'f'
	tagString   = 's'
	tagPositive = 'n'
	tagNegative = 'm'
	tagArray    = '['
	tagEnd      = ']'
	tagObject   = '{'
	tagName     = 'k'
	tagLast     = '}'
)

// object is where an object is in the buffer.
type object struct {
	start, end  int32
	index       int32 // in objects
	next        int32 // in objects: the first that starts after this one ends
	first, last int32 // of its members in sorted; while it is open, first in open
	inOrder     bool
}

// member is where a member is in the buffer: tag, length and name, then value.
type member struct {
	prefix            uint64 // of the name, to compare most names without looking at them
	start, name, body int32
	end               int32
	objects           int32 // the first object that may be in the value
	src               int32 // where the name is in the document
}

// begin starts a document of n bytes, whose form mostly is not much longer.
func (c *content) begin(n int) {
	c.buf = append(slices.Grow(c.buf[:0], n+n/4+len(contentVersion)), contentVersion...)
}

// reset forgets the document and reports whether the buffers are worth keeping.
func (c *content) reset() bool {
	const kept = maxKept / 32
	if cap(c.buf) > maxKept || cap(c.out) > maxKept || cap(c.objects) > kept || cap(c.sorted) > kept || cap(c.open) > kept {
		return false
	}
	c.buf, c.out, c.objects, c.sorted, c.open = c.buf[:0], c.out[:0], c.objects[:0], c.sorted[:0], c.open[:0]
	return true
}

func (c *content) text(s []byte) {
	c.buf = append(c.buf, tagString)
	c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *content) number(negative bool, digits []byte, exponent int64) {
	tag := byte(tagPositive)
	if len(digits) == 0 {
		negative, exponent = false, 0 // zero has one form
	}
	if negative {
		tag = tagNegative
	}
	c.buf = append(c.buf, tag)
	c.buf = binary.AppendUvarint(c.buf, uint64(len(digits)))
	c.buf = append(c.buf, digits...)
	c.buf = binary.AppendVarint(c.buf, exponent)
}

func (c *content) openObject() object {
	o := object{start: int32(len(c.buf)), index: int32(len(c.objects)), first: int32(len(c.open)), inOrder: true}
	c.objects = append(c.objects, o)
	c.buf = append(c.buf, tagObject)
	return o
}

// name starts a member. It returns the name as the buffer holds it, which stays as it is.
func (c *content) name(o *object, name []byte, src int) []byte {
	m := member{prefix: prefixOf(name), start: int32(len(c.buf)), objects: int32(len(c.objects)), src: int32(src)}
	c.buf = append(c.buf, tagName)
	c.buf = binary.AppendUvarint(c.buf, uint64(len(name)))
	m.name = int32(len(c.buf))
	c.buf = append(c.buf, name...)
	m.body = int32(len(c.buf))
	if n := len(c.open); o.inOrder && n > int(o.first) {
		o.inOrder = c.compare(&c.open[n-1], &m) < 0
	}
	c.open = append(c.open, m)
	return c.buf[m.name:m.body:m.body]
}

func (c *content) endMember() { c.open[len(c.open)-1].end = int32(len(c.buf)) }

// closeObject puts the members in order, leaving out those of the envelope. It returns a member whose name is there
// twice, if there is one.
func (c *content) closeObject(o *object, envelope map[string]bool) (twice *member) {
	c.buf = append(c.buf, tagLast)
	members := c.open[o.first:]
	c.open = c.open[:o.first]
	if !o.inOrder {
		slices.SortFunc(members, func(a, b member) int {
			return cmp.Or(c.compare(&a, &b), cmp.Compare(a.src, b.src))
		})
		for i := 1; i < len(members); i++ {
			if c.compare(&members[i-1], &members[i]) == 0 {
				return &members[i]
			}
		}
	}
	if len(envelope) > 0 {
		n := len(members)
		members = slices.DeleteFunc(members, func(m member) bool { return envelope[string(c.nameOf(&m))] })
		o.inOrder = o.inOrder && len(members) == n
	}
	if o.inOrder && len(c.objects) == int(o.index)+1 {
		c.objects = c.objects[:o.index] // nothing in it is out of order either
		return nil
	}
	o.end, o.next = int32(len(c.buf)), int32(len(c.objects))
	if !o.inOrder {
		o.first = int32(len(c.sorted))
		c.sorted = append(c.sorted, members...)
		o.last = int32(len(c.sorted))
	}
	c.objects[o.index] = *o
	return nil
}

func (c *content) compare(a, b *member) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return bytes.Compare(c.nameOf(a), c.nameOf(b))
}

func (c *content) nameOf(m *member) []byte { return c.buf[m.name:m.body] }

// sum returns the fingerprint of the document that was read.
func (c *content) sum() (f pawl.Fingerprint) {
	form := c.buf
	if len(c.objects) > 0 {
		c.out = c.appendOrdered(c.out[:0], 0, int32(len(c.buf)), 0)
		form = c.out
	}
	sum := sha256.Sum256(form)
	copy(f[:], sum[:])
	return f
}

// appendOrdered appends the buffer from start to end with the objects in it in order. next is the first of them.
func (c *content) appendOrdered(dst []byte, start, end, next int32) []byte {
	for int(next) < len(c.objects) && c.objects[next].start < end {
		o := &c.objects[next]
		next++
		if o.inOrder {
			continue
		}
		dst = append(append(dst, c.buf[start:o.start]...), tagObject)
		for i := o.first; i < o.last; i++ {
			m := &c.sorted[i]
			dst = append(dst, c.buf[m.start:m.body]...)
			dst = c.appendOrdered(dst, m.body, m.end, m.objects)
		}
		dst = append(dst, tagLast)
		start, next = o.end, o.next
	}
	return append(dst, c.buf[start:end]...)
}
