#!/bin/sh
# Runs a command on another host, as ssh does: options, the host's name, words for a shell over there, which
# starts in a fresh environment.
while :; do
    case ${1-} in
    -[lp]) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
name=${1-}
shift
while read -r known pid; do
    if [ "$known" = "$name" ]; then
        exec nsenter --target "$pid" --mount --uts --ipc --net --pid -- \
            env -i HOME="$HOME" USER=root LOGNAME=root SHELL=/bin/sh \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "$*" <&3 3<&-
    fi
done 3<&0 </tmp/.agent-hosts
echo "agent: no host is called '$name'" >&2
exit 255
