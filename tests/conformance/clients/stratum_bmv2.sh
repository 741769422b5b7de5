#!/bin/bash
# Starts simple_switch_grpc with the command line of stratum_bmv2, from which finsy's examples have most of their switches.
cpu=255 address=0.0.0.0:9559 device=1 chassis= tls=()
for argument; do
    value=${argument#*=}
    case $argument in
        -device_id=*) device=$value ;;
        -chassis_config_file=*) chassis=$value ;;
        -cpu_port=*) cpu=$value ;;
        -external_stratum_urls=*) address=$value ;;
        -ca_cert_file=*) tls+=(--grpc-server-ssl --grpc-server-with-client-auth --grpc-server-cacert "$value") ;;
        -server_cert_file=*) tls+=(--grpc-server-cert "$value") ;;
        -server_key_file=*) tls+=(--grpc-server-key "$value") ;;
    esac
done
# The ports of the chassis: lines `id: 1` and `name: "s1-eth1"` in singleton_ports.
mapfile -t ports < <(awk '/^singleton_ports/ { port = 1 }
    port && /^ *id:/ { id = $2 }
    port && /^ *name:/ { gsub(/"/, "", $2); print id "@" $2; port = 0 }' "$chassis")
exec simple_switch_grpc --no-p4 --log-console --device-id "$device" "${ports[@]/#/-i}" -- --cpu-port "$cpu" \
    --grpc-server-addr "$address" "${tls[@]}"
