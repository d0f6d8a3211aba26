#!/bin/sh
# Makes the files of each host of a mesh, to be copied to the root of its file system:
#
#   host-files.sh hosts.csv keys https://mesh.example.com:18517 out
#
# `hosts.csv` is the list of inventory.sh, `keys` the folder of `rnic mesh keys`, and `out` gets a folder for each host:
#
#   out/NAME/etc/rnic/{host.pem,host-key.pem,ca.pem,mesh-agent.env}
#   out/NAME/etc/systemd/system/rnic-mesh-agent.service
#   out/NAME/usr/lib/sysusers.d/rnic-mesh.conf
#
# Run it again after `rnic mesh keys --renew`: it replaces the files.
set -eu
if [ $# -ne 4 ]; then
    echo "usage: host-files.sh hosts.csv keys CONTROLLER out" >&2
    exit 2
fi
hosts=$1 keys=$2 controller=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)
umask 077
grep -Ev '^[[:space:]]*(#|$)' "$hosts" | tr -d ' \t"\\' | while IFS=, read -r name address _; do
    case $name in
        "" | */* | .*)
            echo "$hosts: \`$name\` is not the name of a host" >&2
            exit 1
            ;;
    esac
    root=$out/$name
    mkdir -p "$root/etc/rnic" "$root/etc/systemd/system" "$root/usr/lib/sysusers.d"
    cp "$keys/$name.pem" "$root/etc/rnic/host.pem"
    cp "$keys/$name-key.pem" "$root/etc/rnic/host-key.pem"
    cp "$keys/ca.pem" "$root/etc/rnic/ca.pem"
    printf 'CONTROLLER=%s\nNAME=%s\nADDRESS=%s\n' "$controller" "$name" "$address" > "$root/etc/rnic/mesh-agent.env"
    cp "$here/rnic-mesh-agent.service" "$root/etc/systemd/system/"
    cp "$here/rnic-mesh.sysusers.conf" "$root/usr/lib/sysusers.d/rnic-mesh.conf"
    chmod 755 "$root" "$root/etc" "$root/etc/rnic" "$root/etc/systemd" "$root/etc/systemd/system" "$root/usr" "$root/usr/lib" "$root/usr/lib/sysusers.d"
    chmod 644 "$root/etc/rnic/host.pem" "$root/etc/rnic/ca.pem" "$root/etc/rnic/mesh-agent.env" \
        "$root/etc/systemd/system/rnic-mesh-agent.service" "$root/usr/lib/sysusers.d/rnic-mesh.conf"
done
