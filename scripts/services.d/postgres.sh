# shellcheck shell=bash
# PostgreSQL: a throw-away cluster with the durable defaults, because what is tested is what
# survives a crash.
# shellcheck disable=SC2034 # WHY is read by scripts/services

postgres_own_url() {
    local port
    port=$(recall postgres.port)
    [[ -n $port ]] && echo "postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
}

# A URL that an earlier `env` of this same state printed is ours, not given: after a down it
# must not be mistaken for somebody's server.
postgres_given() {
    [[ -n ${PAWL_TEST_POSTGRES:-} && $PAWL_TEST_POSTGRES != "$(postgres_own_url)" ]]
}

postgres_url() {
    if postgres_given; then
        echo "$PAWL_TEST_POSTGRES"
    else
        postgres_own_url
    fi
}

postgres_alive() {
    if ! postgres_given; then
        pid_of "$STATE/postgres/data/postmaster.pid" "$STATE/postgres/data" >/dev/null &&
            pg_answers "$(postgres_own_url)"
    else
        split_url "$PAWL_TEST_POSTGRES" && port_open "$URL_HOST" "$URL_PORT"
    fi
}

postgres_describe() {
    if postgres_given; then
        split_url "$PAWL_TEST_POSTGRES"
        echo "given by PAWL_TEST_POSTGRES on $URL_HOST:$URL_PORT"
    else
        echo "$(recall postgres.version) on 127.0.0.1:$(recall postgres.port)"
    fi
}

postgres_env() {
    echo "export PAWL_TEST_POSTGRES=$(sh_quote "$(postgres_url)")"
}

postgres_up() {
    local bin dir=$STATE/postgres try port
    if postgres_given; then
        WHY="PAWL_TEST_POSTGRES is set, but is not a postgres:// URL at which something listens"
        return 1
    fi
    if ! bin=$(postgres_bin); then
        apt_install postgresql || return 1
        bin=$(postgres_bin) || { WHY="installed, but initdb and pg_ctl were not found"; return 1; }
    fi
    postgres_stop
    fresh_dir "$dir"
    # --no-sync spares only the files of a cluster that is thrown away if this step dies; the
    # server itself runs with fsync on.
    if ! in_dir "$dir" "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
        >"$STATE/postgres-initdb.log" 2>&1 </dev/null; then
        WHY="initdb did not work, see $STATE/postgres-initdb.log"
        return 1
    fi
    cat >>"$dir/data/postgresql.conf" <<'CONF'

listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 256MB
max_wal_size = 4GB
max_connections = 200
CONF
    "$bin/postgres" --version | awk '{print $3}' >"$STATE/postgres.version"

    # Somebody else may take the port between the look and the start.
    port=$(recall postgres.port)
    for try in 1 2 3 4; do
        port=$(spare_port "$port")
        if in_dir "$dir" "$bin/pg_ctl" start -w -t 60 -s -D "$dir/data" -l "$dir/log" -o "-p $port" \
            >"$STATE/postgres-start.log" 2>&1 </dev/null; then
            echo "$port" >"$STATE/postgres.port"
            return 0
        fi
        port=
    done
    WHY="pg_ctl start did not work in $try tries, see $dir/log"
    return 1
}

postgres_down() {
    postgres_stop
    rm -rf "$STATE/postgres" "$STATE"/postgres-*.log
}

postgres_stop() {
    # INT is PostgreSQL's fast shutdown: it ends sessions and does not wait for them.
    stop_pid "$STATE/postgres/data/postmaster.pid" "$STATE/postgres/data" INT
}

# pg_answers runs a query, or where there is no psql looks whether the port is open. Only for
# our own URLs: those given may hold parameters that psql does not know.
pg_answers() { # url
    local psql
    split_url "$1" && port_open "$URL_HOST" "$URL_PORT" || return 1
    psql=$(command -v psql || { psql=$(postgres_bin)/psql && [[ -x $psql ]] && echo "$psql"; }) || return 0
    PGCONNECT_TIMEOUT=10 "$psql" -XAtqc 'select 1' "$1" >/dev/null 2>&1 </dev/null
}

# postgres_bin prints the folder of the server's programs: what the PATH names, else the
# newest version where Debian keeps them.
postgres_bin() {
    local dir
    if dir=$(command -v pg_ctl); then
        dir=$(dirname "$(readlink -f "$dir")")
        [[ -x $dir/initdb && -x $dir/postgres ]] && echo "$dir" && return
    fi
    while read -r dir; do
        [[ -x $dir/initdb && -x $dir/pg_ctl && -x $dir/postgres ]] && echo "$dir" && return
    done < <(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV)
    return 1
}
