#!/bin/sh
# Installs packages without letting them start daemons or create a database of their own.
# Run as root by apt_install in common.sh.
set -eu
export DEBIAN_FRONTEND=noninteractive

# Two test runs on one machine may want the same package.
exec 9</var/cache/apt
flock 9

policy=/usr/sbin/policy-rc.d
no_cluster=/etc/postgresql-common/createcluster.d/pawl.conf
made=
trap 'rm -f $made; rmdir "${no_cluster%/*}" 2>/dev/null || true' EXIT
if [ ! -e "$policy" ]; then
    made=$policy
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
if [ ! -e "$no_cluster" ]; then
    made="$made $no_cluster"
    mkdir -p "$(dirname "$no_cluster")"
    echo 'create_main_cluster = false' >"$no_cluster"
fi

# Stale lists are good enough if they cannot be renewed.
apt-get update -q 9>&- || echo "apt-get update did not work; going on" >&2
apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" 9>&-
