# Runs a program with a /dev that has /dev/infiniband/uverbs0, which is /dev/null. UCX wants a character device there,
# but does not open it. Needs a mount namespace of its own: `unshare --mount sh device.sh PROGRAM ...`. Docker does the
# same with `--device /dev/null:/dev/infiniband/uverbs0`.
set -e
old=$(mktemp -d)
mount --bind /dev "$old"
mount -t tmpfs none /dev
for name in null zero random urandom full tty; do
    touch /dev/$name
    mount --bind "$old/$name" /dev/$name
done
mkdir /dev/shm /dev/pts /dev/infiniband
mount -t tmpfs none /dev/shm
mount -t devpts none /dev/pts 2>/dev/null || true
ln -s pts/ptmx /dev/ptmx
touch /dev/infiniband/uverbs0
mount --bind "$old/null" /dev/infiniband/uverbs0
umount "$old"
rmdir "$old"
exec "$@"
