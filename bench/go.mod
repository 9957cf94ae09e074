module github.com/pawlhq/pawl/bench

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.11.0
	github.com/pawlhq/pawl v0.0.0
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kadm v1.19.0
)

replace github.com/pawlhq/pawl => ../
