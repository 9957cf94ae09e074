# shellcheck shell=bash
# What the services share. Sourced by scripts/services, which sets self.
# shellcheck disable=SC2034,SC2154 # set here and read there, or the other way round

STATE= # the state folder, set by open_state
WHY=   # why the service that is being started cannot be had

# open_state finds the state folder, makes it, and takes its lock until the script ends.
open_state() {
    local default=${XDG_CACHE_HOME:-$HOME/.cache}/pawl/services
    STATE=${PAWL_SERVICES_DIR:-$default}
    make_state
    if ! reachable "$STATE"; then
        # Root's services run as another user, who may not enter a home folder.
        [[ -z ${PAWL_SERVICES_DIR:-} ]] || die "user $(service_user) cannot enter PAWL_SERVICES_DIR=$STATE"
        rmdir "$STATE" 2>/dev/null || true
        STATE=/tmp/pawl-services-$EUID
        make_state
    fi
    if command -v flock >/dev/null; then
        exec 9>"$STATE/lock"
        flock -w 600 9 || die "another scripts/services holds $STATE/lock"
    fi
}

make_state() {
    mkdir -p "$STATE"
    [[ -O $STATE ]] || die "$STATE belongs to another user"
    # Without this a strict umask would keep the services' user out.
    [[ $EUID -ne 0 ]] || chmod 755 "$STATE"
    STATE=$(cd "$STATE" && pwd)
}

die() {
    echo "services: $*" >&2
    exit 1
}

# service_user is who runs the services: PostgreSQL and PgBouncer refuse to run as root.
service_user() {
    if [[ $EUID -ne 0 ]]; then
        id -un
    elif id postgres >/dev/null 2>&1; then
        echo postgres
    else
        echo nobody
    fi
}

reachable() { # dir
    as_user "$(service_user)" test -x "$1"
}

as_user() { # user cmd…
    local user=$1
    shift
    if [[ $EUID -ne 0 ]]; then
        "$@"
    elif command -v setpriv >/dev/null; then
        setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups -- "$@"
    else
        # shellcheck disable=SC2016 # for the inner shell to expand
        su -s /bin/sh "$user" -c 'exec "$0" "$@"' -- "$@"
    fi
}

# fresh_dir makes a service's folder anew, owned by the services' user.
fresh_dir() { # dir
    rm -rf "$1"
    mkdir "$1"
    chmod 700 "$1"
    [[ $EUID -ne 0 ]] || chown "$(service_user)" "$1"
}

# in_dir runs a command inside a service's folder, as the user who owns it: that user may
# not be allowed in the caller's folder.
in_dir() { # dir cmd…
    local dir=$1 user
    shift
    user=$(service_user)
    [[ $EUID -ne 0 ]] || user=$(stat -c %U "$dir")
    (cd "$dir" && as_user "$user" "$@")
}

port_open() { # host port
    (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null
}

# spare_port prints the preferred port if nothing listens there, else a free one below the
# range from which the kernel takes the ports of clients.
spare_port() { # [preferred]
    local port=${1:-}
    while [[ -z $port ]] || port_open 127.0.0.1 "$port"; do
        port=$((20000 + RANDOM % 12000))
    done
    echo "$port"
}

wait_port() { # port seconds
    local tries=$(($2 * 20))
    until port_open 127.0.0.1 "$1"; do
        ((tries-- > 0)) || return 1
        sleep 0.05
    done
}

# pid_of prints the pid in a file, if that process lives and its command line names needle: a
# number left by an earlier boot may be anybody's by now. A zombie has no command line.
pid_of() { # pidfile needle
    local pid args
    [[ -r $1 ]] && read -r pid <"$1" || return 1
    if [[ -d /proc/self ]]; then
        args=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
    else
        args=$(ps -p "$pid" -o args=) || return 1
    fi
    [[ $args == *"$2"* ]] && echo "$pid"
}

# stop_pid sends the signal, waits, and only then insists.
stop_pid() { # pidfile needle signal
    local pid tries=600
    pid=$(pid_of "$1" "$2") || return 0
    kill "-$3" "$pid" 2>/dev/null || true
    while pid_of "$1" "$2" >/dev/null; do
        if ((tries-- == 0)); then
            kill -KILL "$pid" 2>/dev/null || true
            return
        fi
        sleep 0.05
    done
}

# test_var prints the name of the variable by which the tests find a service.
test_var() { # service
    echo "PAWL_TEST_$(tr '[:lower:]' '[:upper:]' <<<"$1")"
}

# given is true if the environment names a server. What an earlier `env` of this same state
# printed is ours, not given: after a down it must not be mistaken for somebody's server.
given() { # service
    local var
    var=$(test_var "$1")
    [[ -n ${!var:-} && ${!var} != "$("${1}_own")" ]]
}

# address prints where the tests find a service, given or our own.
address() { # service
    local var
    var=$(test_var "$1")
    if given "$1"; then
        echo "${!var}"
    else
        "${1}_own"
    fi
}

export_address() { # service
    echo "export $(test_var "$1")=$(sh_quote "$(address "$1")")"
}

# write_ctl makes the file by which a test kills and starts a service of ours:
# sh FILE kill, sh FILE start. It is no program, because the state may be where none may run.
write_ctl() { # service
    cat >"$STATE/$1-ctl" <<CTL
#!/bin/sh
PAWL_SERVICES_DIR=$(sh_quote "$STATE") exec $(sh_quote "$self") ctl $1 "\$@"
CTL
    chmod 755 "$STATE/$1-ctl"
}

# export_ctl also forgets one that is of another server.
export_ctl() { # service
    if given "$1"; then
        echo "unset $(test_var "$1")_CTL"
    else
        echo "export $(test_var "$1")_CTL=$(sh_quote "$STATE/$1-ctl")"
    fi
}

# recall prints what an earlier up wrote down about a service, or nothing.
recall() { # file
    [[ ! -r $STATE/$1 ]] || cat "$STATE/$1"
}

sh_quote() { # text
    printf "'%s'" "${1//\'/\'\\\'\'}"
}

# apt_install installs Debian packages if this user may, else sets WHY.
apt_install() { # package…
    local root=()
    if [[ ${PAWL_SERVICES_INSTALL:-} == never ]]; then
        WHY="not installed, and PAWL_SERVICES_INSTALL=never (package: $*)"
        return 1
    fi
    if ! command -v apt-get >/dev/null; then
        WHY="not installed, and there is no apt-get here to install it with"
        return 1
    fi
    if [[ $EUID -ne 0 ]]; then
        if ! sudo -n true 2>/dev/null; then
            WHY="not installed, and installing needs root: apt-get install $*"
            return 1
        fi
        root=(sudo -n)
    fi
    echo "services: installing $*" >&2
    if ! ${root[@]+"${root[@]}"} sh "$self.d/apt-install.sh" "$@" >"$STATE/apt-$1.log" 2>&1 </dev/null; then
        WHY="apt-get install $* did not work: $(grep -m1 '^E:' "$STATE/apt-$1.log" || tail -n 1 "$STATE/apt-$1.log")"
        return 1
    fi
}

# cache_dir prints the folder for what is fetched once and outlives the services.
cache_dir() {
    local dir=${XDG_CACHE_HOME:-$HOME/.cache}/pawl
    mkdir -p "$dir"
    if ! reachable "$dir"; then
        # Root's services run as another user, who may not enter a home folder.
        dir=/var/cache/pawl
        mkdir -p "$dir"
        chmod 755 "$dir"
    fi
    echo "$dir"
}

# cached makes a folder by a command that fills the folder named last, once. Whoever finds it
# finds all of it: it gets its name when it is complete. Two at once would also be too much
# for Maven, whose own folder they share.
cached() { # dir cmd…
    local dir=$1 cache tmp rc=0
    shift
    [[ ! -d $dir ]] || return 0
    cache=$(dirname "$dir")
    exec 8>"$cache/lock"
    if command -v flock >/dev/null; then
        flock -w 1200 8 || { WHY="another scripts/services holds $cache/lock"; return 1; }
    fi
    if [[ ! -d $dir ]]; then
        rm -rf "$dir".tmp.*
        tmp=$(mktemp -d "$dir.tmp.XXXXXX")
        echo "services: fetching $(basename "$dir")" >&2
        if "$@" "$tmp" 8>&-; then
            chmod -R a+rX "$tmp"
            mv "$tmp" "$dir"
        else
            rc=1
            rm -rf "$tmp"
        fi
    fi
    exec 8>&-
    return "$rc"
}

# maven copies, or unpacks, artifacts and what they need at run time into a folder.
maven() { # copy|unpack group:artifact:version… dir
    local goal=$1-dependencies dir log coordinates group artifact version
    shift
    for dir in "$@"; do :; done
    log=$STATE/maven-$(cut -d: -f2 <<<"$1").log
    command -v mvn >/dev/null || apt_install maven || return 1
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        echo '<groupId>pawl</groupId><artifactId>services</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
        for coordinates in "${@:1:$#-1}"; do
            IFS=: read -r group artifact version <<<"$coordinates"
            echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
        done
        echo '</dependencies></project>'
    } >"$dir/pom.xml"
    if ! mvn -q -B -Dstyle.color=never -f "$dir/pom.xml" "dependency:$goal" -DoutputDirectory="$dir" -DincludeScope=runtime \
        >"$log" 2>&1 </dev/null; then
        WHY="mvn did not work: $(sed -n 's/.*\[ERROR\] //p' "$log" | head -n 1 | cut -c1-300)"
        return 1
    fi
    rm -f "$dir/pom.xml" "$log"
}

# split_url sets URL_HOST, URL_PORT, URL_USER and URL_PASSWORD from a postgres:// URL.
split_url() { # url
    local re='^postgres(ql)?://(([^:@/]*)(:([^@/]*))?@)?(\[[^]]+\]|[^:/?]+)(:([0-9]+))?([/?].*)?$'
    [[ $1 =~ $re ]] || return 1
    URL_USER=$(url_decode "${BASH_REMATCH[3]}")
    URL_PASSWORD=$(url_decode "${BASH_REMATCH[5]}")
    URL_HOST=${BASH_REMATCH[6]//[\[\]]/}
    URL_PORT=${BASH_REMATCH[8]:-5432}
}

url_decode() { # text
    printf '%b' "${1//%/\\x}"
}
