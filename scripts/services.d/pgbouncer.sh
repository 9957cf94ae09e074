# shellcheck shell=bash
# PgBouncer in transaction mode, in front of whichever PostgreSQL the tests use. The pool is
# small on purpose, so that two transactions of one client do meet different server sessions.
# shellcheck disable=SC2034 # WHY is read by scripts/services

pgbouncer_own() {
    local port
    port=$(recall pgbouncer.port)
    [[ -n $port ]] && echo "postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
}

pgbouncer_alive() {
    if ! given pgbouncer; then
        pid_of "$STATE/pgbouncer/pid" "$STATE/pgbouncer/pgbouncer.ini" >/dev/null || return 1
        # One that points at a server of the past is of no use.
        [[ $(recall pgbouncer/upstream) == "$(address postgres)" ]] || return 1
        pg_answers "$(pgbouncer_own)"
    else
        split_url "$PAWL_TEST_PGBOUNCER" && port_open "$URL_HOST" "$URL_PORT"
    fi
}

pgbouncer_describe() {
    if given pgbouncer; then
        split_url "$PAWL_TEST_PGBOUNCER"
        echo "given by PAWL_TEST_PGBOUNCER on $URL_HOST:$URL_PORT"
    else
        echo "$(recall pgbouncer.version) on 127.0.0.1:$(recall pgbouncer.port)"
    fi
}

pgbouncer_env() {
    export_address pgbouncer
}

pgbouncer_up() {
    local bin dir=$STATE/pgbouncer port try
    if given pgbouncer; then
        WHY="PAWL_TEST_PGBOUNCER is set, but is not a postgres:// URL at which something listens"
        return 1
    fi
    if ! postgres_alive; then
        WHY="there is no PostgreSQL to stand in front of"
        return 1
    fi
    if ! bin=$(pgbouncer_bin); then
        apt_install pgbouncer || return 1
        bin=$(pgbouncer_bin) || { WHY="installed, but the program was not found"; return 1; }
    fi
    pgbouncer_stop
    "$bin" --version | awk 'NR == 1 {print $2}' >"$STATE/pgbouncer.version"

    port=$(recall pgbouncer.port)
    for try in 1 2 3 4; do
        port=$(spare_port "$port")
        fresh_dir "$dir"
        address postgres >"$dir/upstream"
        pgbouncer_config "$dir" "$port" >"$dir/pgbouncer.ini"
        [[ $EUID -ne 0 ]] || chown "$(stat -c %U "$dir")" "$dir/pgbouncer.ini"
        # The port answering is not enough: it could be whoever took it first.
        if in_dir "$dir" "$bin" -q -d "$dir/pgbouncer.ini" >"$STATE/pgbouncer-start.log" 2>&1 </dev/null &&
            wait_port "$port" 10 && pid_of "$dir/pid" "$dir/pgbouncer.ini" >/dev/null; then
            echo "$port" >"$STATE/pgbouncer.port"
            pg_answers "$(pgbouncer_own)" && return 0
            WHY="it runs, but a query through it does not work, see $dir/log"
            return 1
        fi
        pgbouncer_stop
        port=
    done
    WHY="it did not start in $try tries, see $dir/log and $STATE/pgbouncer-start.log"
    return 1
}

# pgbouncer_config prints the configuration. With auth_type any, each client gets the user of
# the database line, so tests need no password file.
pgbouncer_config() { # dir port
    local server
    split_url "$(address postgres)"
    server="host=$URL_HOST port=$URL_PORT user=$(ini_quote "${URL_USER:-$(id -un)}")"
    # An empty password would be a syntax error, found only when a client connects.
    [[ -z $URL_PASSWORD ]] || server+=" password=$(ini_quote "$URL_PASSWORD")"
    cat <<CONF
[databases]
* = $server

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $2
unix_socket_dir =
logfile = $1/log
pidfile = $1/pid
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
server_idle_timeout = 30
ignore_startup_parameters = extra_float_digits,options
CONF
}

ini_quote() { # text
    printf "'%s'" "${1//\'/\'\'}"
}

pgbouncer_down() {
    pgbouncer_stop
    rm -rf "$STATE/pgbouncer" "$STATE"/pgbouncer-*.log
}

pgbouncer_stop() {
    # TERM ends it at once; INT would wait for its clients.
    stop_pid "$STATE/pgbouncer/pid" "$STATE/pgbouncer/pgbouncer.ini" TERM
}

pgbouncer_bin() {
    command -v pgbouncer && return
    # Debian's is in a folder that is not on every user's PATH.
    [[ -x /usr/sbin/pgbouncer ]] && echo /usr/sbin/pgbouncer
}
