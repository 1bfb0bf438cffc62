# The first process of a host: gives it mounts and a name of its own, waits for its network, and then for the
# end of its standard input. When that comes, also because whoever holds the other end was killed, this process
# ends, and the kernel kills every process of the host with it.
#
# Arguments: name, address with prefix length, MAC address or "-", text of /etc/hosts, folders to keep.
set -eu
name=$1 address=$2 mac=$3 table=$4
shift 4

mount -t proc proc /proc
mount -t sysfs sysfs /sys
# A folder to keep that lies in /tmp is held open across the mount which hides it.
fd=3
for kept; do
    eval "exec $fd<\"\$kept\""
    fd=$((fd + 1))
done
for folder in /tmp /dev/shm; do
    mount -t tmpfs -o mode=1777 tmpfs "$folder"
done
fd=3
for kept; do
    case $kept/ in
    /tmp/*)
        mkdir -p "$kept"
        mount --no-canonicalize --bind "/proc/self/fd/$fd" "$kept"
        ;;
    esac
    eval "exec $fd<&-"
    fd=$((fd + 1))
done
printf '%s\n' "$table" >/tmp/.etc-hosts
mount --bind /tmp/.etc-hosts /etc/hosts
printf '%s\n' "$name" >/proc/sys/kernel/hostname
ip link set lo up
echo ready

read -r _
if [ "$mac" != - ]; then
    ip link set eth0 address "$mac"
fi
ip address add "$address" dev eth0
ip link set eth0 up
# Libraries skip an interface that is not "up" yet, which takes up to a second. ("unknown" is what one says that
# has no such state.)
tries=0
until grep -qE 'up|unknown' /sys/class/net/eth0/operstate; do
    tries=$((tries + 1))
    if [ "$tries" -gt 500 ]; then
        echo "the interface of $name does not come up" >&2
        exit 1
    fi
    sleep 0.02
done
echo up
exec cat >/dev/null
