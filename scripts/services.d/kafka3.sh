# shellcheck shell=bash
# Apache Kafka, three nodes with three replicas of everything, of which two must be in sync:
# for tests of what happens when a node dies. Started only when asked for by name.

kafka3_own() { kafka_cluster_own kafka3; }
kafka3_alive() { kafka_cluster_alive kafka3 3; }
kafka3_describe() { kafka_cluster_describe kafka3; }
kafka3_env() { kafka_cluster_env kafka3; }
kafka3_up() { kafka_cluster_up kafka3 3; }
kafka3_ctl() { kafka_cluster_ctl kafka3 3 "$@"; }
kafka3_down() { kafka_cluster_down kafka3 3; }
