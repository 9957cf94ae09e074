package pipeline

import "github.com/pawlhq/pawl/secret"

// File is what a file of pipelines says. The tags are what [Schema] and the checks are made of.
type File struct {
	Version   int       `yaml:"version" need:"yes" enum:"1" doc:"The version of this format."`
	Store     *Store    `yaml:"store" doc:"The database that the effects, and all that Pawl knows, are in. One for all files that are loaded together."`
	Kafka     *Kafka    `yaml:"kafka" doc:"The cluster that is read. One for all files that are loaded together."`
	Pipelines Pipelines `yaml:"pipelines" need:"yes" doc:"The pipelines, by name."`

	name string
}

// Store is where effects go: one of the two.
type Store struct {
	Postgres secret.Ref `yaml:"postgres" doc:"How to connect to PostgreSQL, as a URL or as key=value pairs. Name it as ${file:/path} or ${NAME} instead of writing it down."`
	Schema   string     `yaml:"schema" doc:"The PostgreSQL schema that Pawl's own tables are in. Default: that of the connection."`
	SQLite   string     `yaml:"sqlite" doc:"The path of a SQLite database."`
}

// Kafka is how to reach a cluster.
type Kafka struct {
	Brokers  []string `yaml:"brokers" need:"yes" doc:"Addresses to begin with, host:port."`
	TLS      *TLS     `yaml:"tls" doc:"Encrypts the connections. An empty mapping {} is enough."`
	SASL     *SASL    `yaml:"sasl" doc:"How to log in."`
	Instance string   `yaml:"instance" doc:"Makes this a static member of its groups, by a name that only this process has and has again after a restart."`
}

// TLS encrypts connections to Kafka.
type TLS struct {
	CA          secret.Ref `yaml:"ca" doc:"The authorities that signed the brokers' certificates, in PEM. Default: the system's."`
	Certificate secret.Ref `yaml:"certificate" doc:"The client's own certificate, in PEM, for brokers that ask for one."`
	Key         secret.Ref `yaml:"key" doc:"The key of the certificate, in PEM."`
	ServerName  string     `yaml:"server_name" doc:"The name that the brokers' certificates are for. Default: the host of each address."`
}

// SASL is a login.
type SASL struct {
	Mechanism string     `yaml:"mechanism" need:"yes" enum:"plain|scram-sha-256|scram-sha-512" doc:"How the password is proved."`
	User      string     `yaml:"user" need:"yes" doc:"Who logs in."`
	Password  secret.Ref `yaml:"password" need:"yes" doc:"The password, as ${file:/path} or ${NAME}."`
}

// Pipelines are in the order of the file.
type Pipelines []*Pipeline

// Pipeline is one consumer: topics, what identifies an event, and what becomes of it.
type Pipeline struct {
	Name string `yaml:"-"`

	Topic       Strings `yaml:"topic" need:"yes" doc:"The topic that is read, or a list of them."`
	Owner       string  `yaml:"owner" doc:"The team that answers for the pipeline."`
	Description string  `yaml:"description" doc:"What it is for."`

	Consumer string `yaml:"consumer" doc:"What 'once' is counted under: under another name everything takes effect again. Keep it when the pipeline is renamed. Default: the pipeline's name."`
	Group    string `yaml:"group" doc:"The consumer group. Default: the consumer."`

	Format  string  `yaml:"format" enum:"json|cloudevents" doc:"What a record's value is. cloudevents takes structured and binary mode. Default: json."`
	Event   Event   `yaml:"event" doc:"Where an event says what it is."`
	OncePer Expr    `yaml:"once_per" need:"yes" doc:"What takes effect once: the key that duplicates share. There is no default, because only the owner of the events knows. Mostly event.id."`
	When    Expr    `yaml:"when" doc:"A condition: an event for which it is false is ignored, and counted as such. One that has no key (once_per) is set aside before it is asked."`
	Content Content `yaml:"content" doc:"What two records with one key are compared by."`

	Projection *Projection `yaml:"projection" doc:"One row for each stream, kept up to date."`
	Workflow   *Workflow   `yaml:"workflow" doc:"One row for each stream, in a state; only declared transitions are made."`
	Ledger     *Ledger     `yaml:"ledger" doc:"Entries that are never changed, with exact amounts."`
	Counter    *Counter    `yaml:"counter" doc:"Sums over groups, to which each event contributes once."`
	Audit      *Audit      `yaml:"audit" doc:"One row for each event, never changed. Beside another effect with also: [audit]."`
	State      *State      `yaml:"state" doc:"The latest value for each key, as of a compacted topic; a tombstone deletes."`
	Commands   *Commands   `yaml:"commands" doc:"Rows that are to exist: inserted if they are absent."`
	Also       []string    `yaml:"also" enum:"audit" doc:"Effects beside the one above, which decide for themselves."`

	On         On        `yaml:"on" doc:"What becomes of events that do not simply apply."`
	Order      string    `yaml:"order" enum:"partition|stream|none" doc:"What is kept in order. Default: partition."`
	Quarantine string    `yaml:"quarantine" enum:"record|stream" doc:"What waits behind a record that was set aside: nothing, or its stream. Default: stream for a projection and a workflow, else record."`
	Start      string    `yaml:"start" enum:"earliest|committed" doc:"Where a partition begins that has no position yet. Default: earliest."`
	Retention  Retention `yaml:"retention" doc:"How long records and keys are kept, so that it can be checked that no copy outlives the memory of it."`
	Limits     Limits    `yaml:"limits" doc:"Bounds."`
	Budget     Budget    `yaml:"budget" doc:"How much is quarantined before the pipeline stops and asks."`
	Contract   Agreed    `yaml:"contract" doc:"What was agreed about the pipeline and does not follow from the rest of the file, for pawl contract."`

	built
}

// Event is where an event says what it is. With format cloudevents, id, type, at and stream have defaults: id, type, time and
// subject.
type Event struct {
	ID            Expr `yaml:"id" doc:"The fact's own id, stable when it is sent again."`
	Stream        Expr `yaml:"stream" doc:"The aggregate whose events have an order."`
	StreamType    Expr `yaml:"stream_type" doc:"The kind of aggregate."`
	Version       Expr `yaml:"version" doc:"The event's place in its stream, from 1."`
	Type          Expr `yaml:"type" doc:"What happened."`
	At            Expr `yaml:"at" doc:"When it happened: RFC 3339."`
	MessageID     Expr `yaml:"message_id" doc:"The message's id, new each time it is sent."`
	SchemaVersion Expr `yaml:"schema_version" doc:"The version of the body's schema."`
	Supersedes    Expr `yaml:"supersedes" doc:"The key of an earlier event that this one corrects; $.?name where most events correct nothing."`
	Correlation   Expr `yaml:"correlation" doc:"The business flow it belongs to."`
	Causation     Expr `yaml:"causation" doc:"What caused it."`
}

// Content is what is compared when a key comes again.
type Content struct {
	Except []string `yaml:"except" doc:"Members of the document's outermost object that belong to the message and change when it is sent again, such as the time of sending. They do not count."`
}

// On is what becomes of events that do not simply apply.
type On struct {
	Early   Early  `yaml:"early" doc:"An event whose predecessor is missing. Default: {hold: 10m, then: quarantine}."`
	Stale   string `yaml:"stale" enum:"ignore" doc:"An event that the state is already past."`
	Illegal string `yaml:"illegal" enum:"quarantine" doc:"A transition that is not declared."`
	Poison  string `yaml:"poison" enum:"quarantine|stop" doc:"A record that can never take effect as it is: set it aside, or stop in front of it. Default: quarantine."`
}

// Early is what becomes of an event whose predecessor is missing.
type Early struct {
	Hold Duration `yaml:"hold" doc:"How long it waits for what is missing."`
	Most int      `yaml:"most" doc:"How many events of a stream wait at most. Default: 1000."`
	Then string   `yaml:"then" enum:"quarantine|requery" doc:"What happens after that. Default: quarantine."`

	Act string `yaml:"-"` // of the short form: ignore, quarantine or requery
}

// Retention says how long things are kept.
type Retention struct {
	Topic Duration `yaml:"topic" doc:"How long the topic keeps records: so old may a record be that is delivered again."`
	Keys  Duration `yaml:"keys" doc:"How long decided keys are kept at least. Default: for ever."`
}

// Limits are bounds.
type Limits struct {
	RecordBytes int      `yaml:"record_bytes" doc:"The largest value that is decoded. Default: 4 MiB."`
	Depth       int      `yaml:"depth" doc:"The deepest document that is decoded. Default: 64."`
	Held        int      `yaml:"held" doc:"How many records are held at most. Default: 100000."`
	Batch       int      `yaml:"batch" doc:"The most records in one transaction. Default: 2000."`
	Workers     int      `yaml:"workers" doc:"How many transactions at once. Default: twice the CPUs, at most 16."`
	Tries       int      `yaml:"tries" doc:"How often a record that fails for an unknown reason is tried. Default: 5."`
	Timeout     Duration `yaml:"timeout" doc:"How long one try may take. Default: 30s."`
}

// Budget bounds quarantine.
type Budget struct {
	Window  Duration `yaml:"window" doc:"Over which time. Default: 1m."`
	Records int      `yaml:"records" doc:"How many records. Default: 1000."`
	Percent int      `yaml:"percent" doc:"How many of a hundred, once a hundred were decided. Default: 50."`
}

// Agreed is what people have agreed on. It changes nothing that runs: it closes points of the [Contract] that no file can show.
type Agreed struct {
	RecordKey      string `yaml:"record_key" doc:"What the producer puts into the record key, such as caseId: it decides which records share a partition. pawl doctor checks it by sampling."`
	Truth          string `yaml:"truth" doc:"What is right where the table and its source differ."`
	StaleReads     string `yaml:"stale_reads" doc:"Who reads the table, and how old what they see may be."`
	Reconciliation string `yaml:"reconciliation" doc:"How it is found out that the table and its source differ."`
}
