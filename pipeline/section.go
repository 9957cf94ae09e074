package pipeline

// Projection keeps one row for each stream.
type Projection struct {
	Table   string   `yaml:"table" need:"yes" doc:"The table."`
	Columns Columns  `yaml:"columns" need:"yes" doc:"What each column holds. One of them is stream, which is the key; with the rules next and newer, one is version."`
	Rule    string   `yaml:"rule" enum:"next|newer|newer_time" doc:"Which events apply: that with the next version, any with a higher one, or, weaker, any that happened later. Default: next."`
	Requery *Requery `yaml:"requery" doc:"The source of truth that is asked about a stream that events are missing of."`
	States  bool     `yaml:"states" doc:"Keep the row before and after each event as evidence."`
}

// Workflow keeps one row for each stream, in a state.
type Workflow struct {
	Table       string      `yaml:"table" need:"yes" doc:"The table."`
	Columns     Columns     `yaml:"columns" need:"yes" doc:"What each column holds. One is stream, one is state, and one is version."`
	Rule        string      `yaml:"rule" enum:"next|newer" doc:"Which events apply: that with the next version, or any with a higher one. Default: next."`
	State       Expr        `yaml:"state" need:"yes" doc:"The state that an event leads to. Mostly event.type."`
	Initial     []string    `yaml:"initial" need:"yes" doc:"States that a stream may begin in."`
	Transitions Transitions `yaml:"transitions" need:"yes" doc:"For each state, those that may follow."`
	Requery     *Requery    `yaml:"requery" doc:"The source of truth that is asked about a stream that events are missing of."`
	States      bool        `yaml:"states" doc:"Keep the row before and after each event as evidence."`
}

// Requery is a source of truth that answers over HTTP.
type Requery struct {
	URL     string  `yaml:"url" need:"yes" doc:"The address; {stream} is replaced."`
	Headers Headers `yaml:"headers" doc:"Sent with each request, such as Authorization. Name what is secret as ${file:/path} or ${NAME} instead of writing it down."`
	Version string  `yaml:"version" doc:"The member of the answer that is the version. Default: version."`
	Values  string  `yaml:"values" doc:"The member of the answer that has the values, by column; . is the whole answer. Default: values."`
}

// Ledger adds entries that are never changed.
type Ledger struct {
	Table    string    `yaml:"table" need:"yes" doc:"The table of entries."`
	Columns  Columns   `yaml:"columns" need:"yes" doc:"What each column of an entry holds. One is key, one is account, one is amount; with postings, one is line; with several currencies, one is currency."`
	Account  Expr      `yaml:"account" doc:"The account that an event posts to."`
	Amount   Expr      `yaml:"amount" doc:"The amount, exact: decimal($.amount)."`
	Currency Expr      `yaml:"currency" doc:"The currency, where there are several."`
	Postings *Postings `yaml:"postings" doc:"Instead of account and amount: several entries of one event."`
	Balances *Balances `yaml:"balances" doc:"A table with the balance of each account, kept in the same transaction."`
	States   bool      `yaml:"states" doc:"Keep the balances before and after each event as evidence."`
}

// Postings are several entries of one event: a list in its document.
type Postings struct {
	Each     Expr   `yaml:"each" need:"yes" doc:"The list: $.lines."`
	Account  Expr   `yaml:"account" need:"yes" doc:"The account of one of them: line.account."`
	Amount   Expr   `yaml:"amount" need:"yes" doc:"The amount of one of them: decimal(line.amount)."`
	Currency Expr   `yaml:"currency" doc:"The currency of one of them, where there are several."`
	Sum      string `yaml:"sum" enum:"zero|any" doc:"What they must sum to, in each currency. Default: zero, which is double entry."`
}

// Balances are the sums of accounts.
type Balances struct {
	Table    string `yaml:"table" need:"yes" doc:"The table. Its key is the columns that hold the account and the currency."`
	Balance  string `yaml:"balance" doc:"The column of the balance. Default: balance."`
	Negative string `yaml:"negative" enum:"allow|quarantine" doc:"What becomes of an event that would leave an account below zero. Default: allow."`
}

// Counter adds up.
type Counter struct {
	Table         string  `yaml:"table" need:"yes" doc:"The table of sums."`
	Group         Columns `yaml:"group" need:"yes" doc:"The columns that name a row, and what they hold. A bucket of time is truncate(event.at, duration(\"1h\"))."`
	Add           Columns `yaml:"add" need:"yes" doc:"The columns that are added to, and by how much."`
	Contributions string  `yaml:"contributions" doc:"A table of what each event has contributed, so that it can be corrected: see event.supersedes."`
	States        bool    `yaml:"states" doc:"Keep the sums before and after each event as evidence."`
}

// Audit keeps one row for each event.
type Audit struct {
	Table   string  `yaml:"table" need:"yes" doc:"The table."`
	Columns Columns `yaml:"columns" doc:"What each column holds. One is key. Default: event_key, and what the event section declares, and body."`
}

// State keeps the latest value for each key.
type State struct {
	Table   string  `yaml:"table" need:"yes" doc:"The table."`
	Columns Columns `yaml:"columns" need:"yes" doc:"What each column holds. One is stream; where one is version, an older event changes nothing."`
	Deleted Expr    `yaml:"deleted" doc:"A condition: an event for which it is true deletes the row, as a tombstone does."`
	States  bool    `yaml:"states" doc:"Keep the row before and after each event as evidence."`
}

// Commands inserts rows that are to exist.
type Commands struct {
	Table   string  `yaml:"table" need:"yes" doc:"The table."`
	Command Expr    `yaml:"command" need:"yes" doc:"What identifies the command: it follows from its cause, and is the same however often it is asked for."`
	Columns Columns `yaml:"columns" need:"yes" doc:"What each column holds. One is command."`
}
