# A disk of tgt over iSER, which libiscsi and qemu write and read. Ends with "verified" if the data are right.
# Usage: unshare --mount sh iser.sh FOLDER; the folder, which exists, gets the disk.
set -eu
cd "$1"
# Its own folder for tgt's control socket.
mount -t tmpfs none /run
mkdir -p /run/tgtd
name=iqn.2026-01.example:initiator
target=iqn.2026-01.example:disk
# 64 MiB filled with the byte 0x11.
head -c 67108864 /dev/zero | tr '\0' '\021' >disk
# The pool of buffers is 1 GiB otherwise.
tgtd -f -C 7 --iser port=3260,pool_sz_mb=64 >tgtd.log 2>&1 &
tgtd=$!
# tgtd does not end by SIGTERM as long as it has targets.
trap 'kill -KILL $tgtd; test -f done || cat tgtd.log' EXIT
tries=0
until tgtadm -C 7 --lld iser --op new --mode target --tid 1 -T $target 2>/dev/null; do
    tries=$((tries + 1))
    test $tries -lt 600 && kill -0 $tgtd
    sleep 0.1
done
tgtadm -C 7 --lld iser --op new --mode logicalunit --tid 1 --lun 1 -b "$PWD/disk"
# tgt admits an initiator over iSER only if both its address and its name are on the target's lists.
tgtadm -C 7 --lld iser --op bind --mode target --tid 1 -I ALL
tgtadm -C 7 --lld iser --op bind --mode target --tid 1 -Q $name
iscsi-inq -i $name iser://127.0.0.1:3260/$target/1
iscsi-perf -i $name -t 2 -b 128 -m 8 iser://127.0.0.1:3260/$target/1 | tr '\r' '\n' | grep average | tail -n 1
# libiscsi transfers at most 256 KiB in one request over iSER.
image=driver=iscsi,transport=iser,portal=127.0.0.1:3260,target=$target,lun=1,initiator-name=$name
qemu-io --image-opts $image -c 'read -P 0x11 8M 256k' -c 'write -P 0x5a 0 128k' -c 'write -P 0xa5 1M 256k' \
    -c 'read -P 0x5a 0 128k' -c 'read -P 0xa5 1M 256k' -c 'read -P 0x11 128k 256k' -c flush | tee io.log
! grep -qi 'failed\|error' io.log
# The same in the file behind the disk.
{
    head -c 131072 /dev/zero | tr '\0' '\132'
    head -c 917504 /dev/zero | tr '\0' '\021'
    head -c 262144 /dev/zero | tr '\0' '\245'
    head -c 65798144 /dev/zero | tr '\0' '\021'
} | cmp - disk
: >done
echo verified
