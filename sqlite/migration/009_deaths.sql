insert into pawl_schema (version, name, applied_at)
values (9, 'deaths', cast(strftime('%s', 'now') as integer) * 1000000);

-- crashes: owners in a row that neither moved the position nor gave back. The statement that counts is in sql/apply.sql.
