#!/bin/sh
# Starts a mesh of three hosts in network namespaces on this machine, with the controller outside of them, until Ctrl-C.
# It needs root, iproute2 and `rnic` in the PATH. An argument is the folder of keys and results.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-/tmp/rnic-mesh-example}
mkdir -p "$folder"

clean() {
    trap - EXIT INT TERM
    # shellcheck disable=SC2046
    kill $(jobs -p) 2>/dev/null || true
    wait
    for host in 1 2 3; do ip netns delete "rnic-mesh-h$host" 2>/dev/null || true; done
    ip link delete rnic-mesh0 2>/dev/null || true
}
trap clean EXIT INT TERM

# A bridge stands for the network; the controller is at 10.77.1.254 on it.
ip link add rnic-mesh0 type bridge
ip address add 10.77.1.254/24 dev rnic-mesh0
ip link set rnic-mesh0 up
for host in 1 2 3; do
    ip netns add "rnic-mesh-h$host"
    ip link add "rnic-mesh$host" type veth peer name eth0 netns "rnic-mesh-h$host"
    ip link set "rnic-mesh$host" master rnic-mesh0 up
    ip -n "rnic-mesh-h$host" address add "10.77.1.$host/24" dev eth0
    ip -n "rnic-mesh-h$host" link set eth0 up
    ip -n "rnic-mesh-h$host" link set lo up
done

rnic mesh keys "$here/inventory.toml" --out "$folder/keys" --controller 10.77.1.254
rnic mesh controller "$here/inventory.toml" --data "$folder/data" --listen 10.77.1.254:18517 \
    --certificate "$folder/keys/controller.pem" --key "$folder/keys/controller-key.pem" --ca "$folder/keys/ca.pem" &
for host in 1 2 3; do
    ip netns exec "rnic-mesh-h$host" rnic mesh agent --name "h$host" --address "10.77.1.$host" \
        --controller https://10.77.1.254:18517 --certificate "$folder/keys/h$host.pem" \
        --key "$folder/keys/h$host-key.pem" --ca "$folder/keys/ca.pem" &
done
echo "the page: http://127.0.0.1:18518/"
wait
