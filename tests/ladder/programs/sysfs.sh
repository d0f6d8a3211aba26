# Runs a program with a /sys of its own network namespace, where UCX looks for network interfaces. Needs a mount
# namespace of its own: `unshare --mount sh sysfs.sh PROGRAM ...`.
set -e
mount -t sysfs none /sys
exec "$@"
