# A cluster of Ceph, one monitor and one OSD in memory, whose daemons and clients speak RDMA. Ends with "verified" if
# the data are right. Usage: sh ceph.sh FOLDER [MESSENGER]; the folder exists, and the messenger is `async+rdma`.
set -eu
folder=$1
messenger=${2:-async+rdma}
# What the OSD may have in memory. A full OSD drops writes, and three seconds of a fast one write more than 1 GiB.
memory=8589934592
mkdir -p "$folder/mon" "$folder/osd" "$folder/run"
cd "$folder"
cat >ceph.conf <<END
[global]
fsid = 11111111-2222-3333-4444-555555555555
ms_type = $messenger
ms_cluster_type = $messenger
ms_public_type = $messenger
ms_async_rdma_device_name = rnic0
ms_async_rdma_buffer_size = 16384
ms_async_rdma_send_buffers = 256
ms_async_rdma_receive_buffers = 2048
ms_async_rdma_receive_queue_len = 1024
ms_async_op_threads = 1
ms_bind_msgr2 = false
public_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_host = v1:127.0.0.1:6789
mon_data = $folder/mon
mon_data_avail_crit = 1
mon_allow_pool_size_one = true
osd_data = $folder/osd
osd_objectstore = memstore
memstore_device_bytes = $memory
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
osd_crush_update_on_start = false
osd_class_update_on_start = false
run_dir = $folder/run
admin_socket = $folder/run/\$name.\$pid.asok
pid_file = $folder/run/\$name.pid
log_file = $folder/\$name.log
END
export CEPH_CONF="$folder/ceph.conf"
ulimit -l unlimited 2>/dev/null || :
daemons=
trap 'test -z "$daemons" || kill -KILL $daemons; test -f done || tail -n 5 *.out' EXIT
# try LIMIT COMMAND...: repeats a command until it succeeds. A client of Ceph waits for ever for a cluster.
try() {
    limit=$1
    shift
    tries=0
    until timeout --foreground "$limit" "$@" 2>client.out; do
        tries=$((tries + 1))
        test $tries -lt 10
        sleep 0.5
    done
}
monmaptool --create --fsid 11111111-2222-3333-4444-555555555555 --addv a '[v1:127.0.0.1:6789]' monmap >mon.out
ceph-mon --mkfs -i a --monmap monmap >>mon.out 2>&1
ceph-mon -i a -f >>mon.out 2>&1 &
daemons=$!
try 30 ceph osd new 22222222-2222-3333-4444-555555555555
ceph-osd -i 0 --mkfs --osd-uuid 22222222-2222-3333-4444-555555555555 >osd.out 2>&1
try 30 ceph osd crush add osd.0 1.0 root=default
RNIC_TRACE=$folder/osd.trace ceph-osd -i 0 -f >>osd.out 2>&1 &
daemons="$daemons $!"
try 30 ceph osd pool create bench 8 8
# The first write waits until the OSD is there.
head -c 16777216 /dev/urandom >written
try 60 rados -p bench put object written
try 30 rados -p bench get object read
cmp written read
timeout --foreground 90 rados -p bench bench 3 write --no-cleanup -t 4 2>client.out
# It compares each object with what it has written.
timeout --foreground 90 rados -p bench bench 3 seq -t 4 2>client.out
grep -q ibv_post_send osd.trace
: >done
echo verified
