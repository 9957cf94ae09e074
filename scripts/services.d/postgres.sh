# shellcheck shell=bash
# PostgreSQL: a throw-away cluster with the durable defaults, because what is tested is what
# survives a crash. The functions that begin with pg_ serve every version: their first
# argument is the service's name.
# shellcheck disable=SC2034 # WHY is read by scripts/services

postgres_own() { pg_own postgres; }
postgres_alive() { pg_alive postgres; }
postgres_describe() { pg_describe postgres; }
postgres_env() { pg_env postgres; }
postgres_ctl() { pg_control postgres "$@"; }
postgres_down() { pg_down postgres; }

postgres_up() {
    local bin
    pg_startable postgres || return 1
    if ! bin=$(postgres_bin); then
        apt_install postgresql || return 1
        bin=$(postgres_bin) || { WHY="installed, but initdb and pg_ctl were not found"; return 1; }
    fi
    pg_up postgres "$bin"
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

pg_own() { # service
    local port
    port=$(recall "$1.port")
    [[ -n $port ]] && echo "postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
}

pg_alive() { # service
    if given "$1"; then
        split_url "$(address "$1")" && port_open "$URL_HOST" "$URL_PORT"
    else
        pg_runs "$1" && pg_answers "$(pg_own "$1")"
    fi
}

# pg_runs is about our own, whatever the environment names.
pg_runs() { # service
    pid_of "$STATE/$1/data/postmaster.pid" "$STATE/$1/data" >/dev/null
}

pg_describe() { # service
    if given "$1"; then
        split_url "$(address "$1")"
        echo "given by $(test_var "$1") on $URL_HOST:$URL_PORT"
    else
        echo "$(recall "$1.version") on 127.0.0.1:$(recall "$1.port")"
    fi
}

pg_env() { # service
    export_address "$1"
    export_ctl "$1"
}

pg_startable() { # service
    if given "$1"; then
        WHY="$(test_var "$1") is set, but is not a postgres:// URL at which something listens"
        return 1
    fi
}

pg_up() { # service bin
    local bin=$2 dir=$STATE/$1 try port
    pg_stop "$1" INT
    fresh_dir "$dir"
    # --no-sync spares only the files of a cluster that is thrown away if this step dies; the
    # server itself runs with fsync on.
    if ! in_dir "$dir" "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
        >"$STATE/$1-initdb.log" 2>&1 </dev/null; then
        WHY="initdb did not work, see $STATE/$1-initdb.log"
        return 1
    fi
    cat >>"$dir/data/postgresql.conf" <<'CONF'

listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 256MB
max_wal_size = 4GB
max_connections = 200
CONF
    "$bin/postgres" --version | awk '{print $3}' >"$STATE/$1.version"
    echo "$bin" >"$STATE/$1.bin"

    # Somebody else may take the port between the look and the start.
    port=$(recall "$1.port")
    for try in 1 2 3 4; do
        port=$(spare_port "$port")
        if pg_start "$1" "$port"; then
            echo "$port" >"$STATE/$1.port"
            write_ctl "$1"
            return 0
        fi
        port=
    done
    WHY="pg_ctl start did not work in $try tries, see $dir/log"
    return 1
}

pg_start() { # service port
    in_dir "$STATE/$1" "$(recall "$1.bin")/pg_ctl" start -w -t 60 -s -D "$STATE/$1/data" -l "$STATE/$1/log" -o "-p $2" \
        >"$STATE/$1-start.log" 2>&1 </dev/null
}

# pg_control: kill is PostgreSQL's immediate shutdown, after which it recovers as from a
# crash; stop is the fast one.
pg_control() { # service kill|stop|start
    case ${2:-} in
    kill) pg_stop "$1" QUIT ;;
    stop) pg_stop "$1" INT ;;
    start) pg_runs "$1" || pg_start "$1" "$(recall "$1.port")" || die "$1 did not start, see $STATE/$1/log" ;;
    *) die "usage: ctl $1 kill|stop|start" ;;
    esac
}

pg_down() { # service
    pg_stop "$1" INT
    rm -rf "${STATE:?}/$1" "$STATE/$1"-*.log "$STATE/$1-ctl"
}

pg_stop() { # service signal
    stop_pid "$STATE/$1/data/postmaster.pid" "$STATE/$1/data" "$2"
}

# pg_answers runs a query, or where there is no psql looks whether the port is open. Only for
# our own URLs: those given may hold parameters that psql does not know.
pg_answers() { # url
    local psql
    split_url "$1" && port_open "$URL_HOST" "$URL_PORT" || return 1
    psql=$(command -v psql || { psql=$(postgres_bin)/psql && [[ -x $psql ]] && echo "$psql"; }) || return 0
    PGCONNECT_TIMEOUT=10 "$psql" -XAtqc 'select 1' "$1" >/dev/null 2>&1 </dev/null
}
