# shellcheck shell=bash
# Apache Kafka with listeners that ask who is there: one node, started only when asked for by
# name. Its address is four: PLAINTEXT, for setting up, whose user may do everything; TLS;
# MTLS, which asks for a client's certificate; SASL, a login over TLS.
#
# PAWL_KAFKASEC_PROPERTIES names a file with the rest of the configuration, which the test
# makes: certificates and users.
# shellcheck disable=SC2034 # WHY is read by scripts/services

KAFKASEC_LISTENERS='TLS MTLS SASL'

kafkasec_alive() { kafka_cluster_alive kafkasec 1; }
kafkasec_describe() { kafka_cluster_describe kafkasec; }
kafkasec_env() { kafka_cluster_env kafkasec; }
kafkasec_ctl() { kafka_cluster_ctl kafkasec 1 "$@"; }
kafkasec_down() { kafka_cluster_down kafkasec 1; }

# kafkasec_own prints the port of the broker and those behind that of the controller.
kafkasec_own() {
    recall kafkasec.ports | awk '{printf "127.0.0.1:%s", $1; for (i = 3; i <= NF; i++) printf ",127.0.0.1:%s", $i; print ""}'
}

kafkasec_up() {
    if [[ ! -r ${PAWL_KAFKASEC_PROPERTIES:-} ]]; then
        WHY="PAWL_KAFKASEC_PROPERTIES names no file with certificates and users: tests start it, with kafkatest.Secured"
        return 1
    fi
    kafka_cluster_up kafkasec 1
}

# kafkasec_properties prints what kafka_properties does not. The later of two lines counts.
kafkasec_properties() { # ports of PLAINTEXT, CONTROLLER and KAFKASEC_LISTENERS
    local names=(PLAINTEXT CONTROLLER) name listeners='' advertised='' protocols=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT i=0
    read -ra names <<<"${names[*]} $KAFKASEC_LISTENERS"
    for name in "${names[@]}"; do
        ((++i))
        listeners+="${listeners:+,}$name://127.0.0.1:${!i}"
        [[ $name == CONTROLLER ]] || advertised+="${advertised:+,}$name://127.0.0.1:${!i}"
    done
    cat <<CONF

listeners=$listeners
advertised.listeners=$advertised
listener.security.protocol.map=$protocols,TLS:SSL,MTLS:SSL,SASL:SASL_SSL
ssl.keystore.type=PEM
ssl.truststore.type=PEM
listener.name.mtls.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
CONF
    cat "$PAWL_KAFKASEC_PROPERTIES"
}
