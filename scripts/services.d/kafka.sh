# shellcheck shell=bash
# Apache Kafka: one node, broker and controller at once, from Maven artifacts. The functions
# that begin with kafka_cluster_ and kafka_node_ also serve the cluster of kafka3.sh.
# shellcheck disable=SC2034 # WHY is read by scripts/services

KAFKA=4.3.1

kafka_own() { kafka_cluster_own kafka; }
kafka_alive() { kafka_cluster_alive kafka 1; }
kafka_describe() { kafka_cluster_describe kafka; }
kafka_up() { kafka_cluster_up kafka 1; }
kafka_ctl() { kafka_cluster_ctl kafka 1 "$@"; }
kafka_down() { kafka_cluster_down kafka 1; }

# kafka_env also says where the jars are, for the tools that come with Kafka:
# java -cp "$PAWL_TEST_KAFKA_LIBS/*" org.apache.kafka.tools.TopicCommand …
kafka_env() {
    local libs
    kafka_cluster_env kafka
    libs=$(cache_dir)/kafka-$KAFKA
    [[ ! -d $libs ]] || echo "export PAWL_TEST_KAFKA_LIBS=$(sh_quote "$libs")"
}

# kafka_cluster_own prints the brokers. The file has a line for each node, with the port of
# its broker and of its controller.
kafka_cluster_own() { # service
    recall "$1.ports" | awk '{printf "%s127.0.0.1:%s", sep, $1; sep = ","} END {if (NR > 0) print ""}'
}

kafka_cluster_alive() { # service nodes
    local node broker
    if ! given "$1"; then
        for ((node = 1; node <= $2; node++)); do
            kafka_node_pid "$1" "$node" >/dev/null || return 1
        done
    fi
    for broker in $(address "$1" | tr , ' '); do
        port_open "${broker%:*}" "${broker##*:}" || return 1
    done
}

kafka_cluster_describe() { # service
    if given "$1"; then
        echo "given by $(test_var "$1") on $(address "$1")"
    else
        echo "$KAFKA on $(kafka_cluster_own "$1")"
    fi
}

kafka_cluster_env() { # service
    export_address "$1"
    export_ctl "$1"
}

kafka_cluster_up() { # service nodes
    local libs try node id dir=$STATE/$1
    if given "$1"; then
        WHY="$(test_var "$1") is set, but not to host:port,… at which something listens"
        return 1
    fi
    if ! kafka_java >/dev/null; then
        apt_install default-jre-headless || return 1
        kafka_java >/dev/null || { WHY="there is no Java 17 or newer"; return 1; }
    fi
    libs=$(cache_dir)/kafka-$KAFKA
    cached "$libs" maven copy "org.apache.kafka:kafka_2.13:$KAFKA" "org.apache.kafka:kafka-tools:$KAFKA" \
        org.slf4j:slf4j-simple:1.7.36 || return 1

    for try in 1 2 3; do
        kafka_cluster_stop "$1" "$2"
        fresh_dir "$dir"
        kafka_ports "$1" "$2" "$try"
        id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | cut -c1-22)
        if kafka_cluster_format "$1" "$2" "$id" && kafka_cluster_start "$1" "$2"; then
            write_ctl "$1"
            return 0
        fi
    done
    WHY="it did not start in $try tries: $(tail -qn 1 "$dir"/*/log 2>/dev/null | head -n 1 | cut -c1-300)"
    return 1
}

# kafka_ports chooses the ports, at the first try those of the last time.
kafka_ports() { # service nodes try
    local node broker controller more
    [[ $3 == 1 ]] || rm -f "$STATE/$1.ports"
    for ((node = 1; node <= $2; node++)); do
        read -r broker controller more < <(sed -n "${node}p" "$STATE/$1.ports" 2>/dev/null) || broker='' controller='' more=''
        echo "$(spare_port "$broker") $(spare_port "$controller")$(kafka_more_ports "$1" "$more")"
    done >"$STATE/$1.ports.new"
    mv "$STATE/$1.ports.new" "$STATE/$1.ports"
}

# kafka_more_ports prints a port for each listener that kafkasec has besides.
kafka_more_ports() { # service last-ports
    local name last
    [[ $1 == kafkasec ]] || return 0
    read -ra last <<<"$2"
    for name in $KAFKASEC_LISTENERS; do
        printf ' %s' "$(spare_port "${last[0]:-}")"
        last=("${last[@]:1}")
    done
}

# Each tool is a Java machine of its own, so the nodes are formatted, and then started, side
# by side.
kafka_cluster_format() { # service nodes cluster-id
    local node pids=() pid rc=0
    for ((node = 1; node <= $2; node++)); do
        kafka_node_format "$1" "$node" "$2" "$3" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || rc=1
    done
    return "$rc"
}

kafka_cluster_start() { # service nodes
    local node
    for ((node = 1; node <= $2; node++)); do
        kafka_node_launch "$1" "$node" "$2"
    done
    for ((node = 1; node <= $2; node++)); do
        kafka_node_ready "$1" "$node" || return 1
    done
}

kafka_cluster_stop() { # service nodes
    local node
    for ((node = 1; node <= $2; node++)); do
        kafka_node_stop "$1" "$node" KILL # what it has not written goes with the rest
    done
}

kafka_cluster_down() { # service nodes
    kafka_cluster_stop "$1" "$2"
    rm -rf "${STATE:?}/$1" "$STATE/$1-ctl"
}

# kafka_cluster_ctl: kill is SIGKILL, stop hands over what the node leads and closes its logs;
# start waits until it serves.
kafka_cluster_ctl() { # service nodes kill|stop|start [node]
    local node=${4:-1}
    [[ $node -ge 1 && $node -le $2 ]] || die "$1 has nodes 1 to $2"
    case ${3:-} in
    kill) kafka_node_stop "$1" "$node" KILL ;;
    stop) kafka_node_stop "$1" "$node" TERM ;;
    start)
        kafka_node_pid "$1" "$node" >/dev/null || kafka_node_launch "$1" "$node" "$2"
        kafka_node_ready "$1" "$node" ||
            die "node $node of $1 did not start, see $STATE/$1/$node/log: $(grep -m1 -E 'ERROR|Exception' "$STATE/$1/$node/log" | cut -c1-300)"
        ;;
    *) die "usage: ctl $1 kill|stop|start [node]" ;;
    esac
}

kafka_node_format() { # service node nodes cluster-id
    local dir=$STATE/$1/$2
    fresh_dir "$dir"
    kafka_properties "$@" >"$dir/server.properties"
    [[ $EUID -ne 0 ]] || chown "$(service_user)" "$dir/server.properties"
    in_dir "$dir" "$(kafka_java)" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -cp "$(cache_dir)/kafka-$KAFKA/*" \
        kafka.tools.StorageTool format -t "$4" -c "$dir/server.properties" >"$dir/log" 2>&1 </dev/null
}

# kafka_node_launch starts a node with its own log, and does not wait for it. Ctrl-C is for
# the tests, not for it.
kafka_node_launch() { # service node nodes
    local dir=$STATE/$1/$2 memory=(-Xms256m -Xmx512m)
    [[ $3 == 1 ]] || memory=(-Xmx384m -XX:TieredStopAtLevel=1)
    [[ ! -e $dir/log ]] || mv "$dir/log" "$dir/log.before"
    # shellcheck disable=SC2016 # for the inner shell to expand
    in_dir "$dir" sh -c 'nohup "$@" >log 2>&1 </dev/null & echo $! >pid' sh \
        "$(kafka_java)" "${memory[@]}" -XX:+UseSerialGC -XX:-UsePerfData \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true \
        -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info \
        -cp "$(cache_dir)/kafka-$KAFKA/*" kafka.Kafka "$dir/server.properties"
}

# kafka_node_ready waits until a node is part of the cluster and serves.
kafka_node_ready() { # service node
    local tries=1200
    until grep -q 'Kafka Server started' "$STATE/$1/$2/log" 2>/dev/null; do
        ((tries-- > 0)) && kafka_node_pid "$1" "$2" >/dev/null || return 1
        sleep 0.05
    done
    kafka_node_pid "$1" "$2" >/dev/null
}

kafka_node_pid() { # service node
    pid_of "$STATE/$1/$2/pid" "$STATE/$1/$2/server.properties"
}

kafka_node_stop() { # service node signal
    stop_pid "$STATE/$1/$2/pid" "$STATE/$1/$2/server.properties" "$3"
}

# kafka_properties prints the configuration of a node. What differs from Kafka's defaults makes
# tests quick (small internal topics, no waiting for more members, short sessions allowed,
# deletion within seconds), or refuses what hides mistakes (topics made by being asked for).
kafka_properties() { # service node nodes
    local broker controller voters='' node=0 replicas=$3 in_sync=1
    [[ $3 == 1 ]] || in_sync=2
    while read -r _ controller _; do
        voters+="${voters:+,}$((++node))@127.0.0.1:$controller"
    done <"$STATE/$1.ports"
    read -r broker controller _ < <(sed -n "${2}p" "$STATE/$1.ports")
    cat <<CONF
process.roles=broker,controller
node.id=$2
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$broker,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$broker
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=$STATE/$1/$2/data

default.replication.factor=$replicas
min.insync.replicas=$in_sync
offsets.topic.replication.factor=$replicas
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$in_sync
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=$in_sync
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=4

auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.heartbeat.interval.ms=500
group.consumer.min.heartbeat.interval.ms=100
group.consumer.session.timeout.ms=10000
group.consumer.min.session.timeout.ms=1000
group.consumer.assignment.interval.ms=0
offsets.retention.check.interval.ms=1000
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=1000
log.cleaner.backoff.ms=1000
log.cleaner.dedupe.buffer.size=4194304

# A node that was killed is missed after this time, and is let in again only then.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
CONF
    # shellcheck disable=SC2046 # the ports of the node, a word each
    [[ $1 != kafkasec ]] || kafkasec_properties $(sed -n "${2}p" "$STATE/$1.ports")
}

# kafka_java prints the Java to use.
kafka_java() {
    local java version
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    java=$(command -v "$java" || command -v java) || return 1
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    [[ ${version:-0} -ge 17 ]] && echo "$java"
}
