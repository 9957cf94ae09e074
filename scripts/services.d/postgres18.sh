# shellcheck shell=bash
# A second major version of PostgreSQL, from a Maven artifact that holds the server's programs.
# shellcheck disable=SC2034 # WHY is read by scripts/services

POSTGRES18=18.0.0

postgres18_own() { pg_own postgres18; }
postgres18_alive() { pg_alive postgres18; }
postgres18_describe() { pg_describe postgres18; }
postgres18_env() { pg_env postgres18; }
postgres18_ctl() { pg_control postgres18 "$@"; }
postgres18_down() { pg_down postgres18; }

postgres18_up() {
    local dir
    pg_startable postgres18 || return 1
    dir=$(cache_dir)/postgres-$POSTGRES18
    cached "$dir" postgres18_fetch || return 1
    pg_up postgres18 "$dir/bin"
}

postgres18_fetch() { # dir
    local platform jar=$1/jar
    case $(uname -sm) in
    'Linux x86_64') platform=linux-amd64 ;;
    'Linux aarch64') platform=linux-arm64v8 ;;
    'Darwin x86_64') platform=darwin-amd64 ;;
    'Darwin arm64') platform=darwin-arm64v8 ;;
    *) WHY="there is no artifact for $(uname -sm)"; return 1 ;;
    esac
    mkdir "$jar"
    maven unpack "io.zonky.test.postgres:embedded-postgres-binaries-$platform:$POSTGRES18" "$jar" || return 1
    command -v xz >/dev/null || apt_install xz-utils || return 1
    tar -xJf "$jar"/*.txz -C "$1" || { WHY="the artifact could not be unpacked"; return 1; }
    rm -rf "$jar"
}
