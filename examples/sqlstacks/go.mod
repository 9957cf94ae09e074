module github.com/pawlhq/pawl/examples/sqlstacks

go 1.26.0

require (
	entgo.io/ent v0.14.5
	github.com/jackc/pgx/v5 v5.11.0
	github.com/ncruces/go-sqlite3/gormlite v0.34.0
	github.com/pawlhq/pawl v0.0.0
	gorm.io/driver/postgres v1.6.3
	gorm.io/gorm v1.31.2
	modernc.org/sqlite v1.60.1
)

replace github.com/pawlhq/pawl => ../..
