#!/bin/bash
# Whether the program of this container is alive: 0 when /health/live answers 200, else 1. The address is that of
# INBOX_HTTP__LISTEN or OUTBOX_HTTP__LISTEN, or the first argument. Bash alone, as the image has no HTTP client.
if grep -qsx outbox-relay /proc/[0-9]*/comm; then
    listen=${1:-$OUTBOX_HTTP__LISTEN}
else
    listen=${1:-$INBOX_HTTP__LISTEN}
fi
# Without a port nothing can be asked, which is no failure of the program.
[ "$listen" = off ] && exit 0
exec 3<> "/dev/tcp/127.0.0.1/${listen##*:}" || exit 1
printf 'GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 5 _ status _ <&3
[ "$status" = 200 ] || exit 1
