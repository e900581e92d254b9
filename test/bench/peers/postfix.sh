#!/bin/bash
# Postfix beside us: smtp-source -> a private Postfix (queue on disk) -> smtp-sink, all on loopback. --dkim adds OpenDKIM.
# --workload receipt: to 40 domains on 8 hosts, 20 KB; plain: to one host, 17 KB; 100k: the same, 100 KB. Everything started is ended by
# its pid. --sink HOST:PORT: mail goes there, for a recipient of its own each, and the end is when nothing waits; what is deferred is
# tried again after 1 to 4 s.
#   apt-get install -y postfix opendkim openssl
set -euo pipefail
umask 022
messages=3000 workload=plain sink= dkim=0 timeout=240 sessions=20
while [ $# -gt 0 ]; do
  case $1 in
    --messages) messages=$2; shift ;;
    --workload) workload=$2; shift ;;
    --dkim) dkim=1 ;;
    --sink) sink=$2; shift ;;
    --json) ;;
    *) echo "usage: $0 [--messages N] [--workload plain|receipt|100k] [--sink HOST:PORT] [--dkim] [--json]" >&2; exit 64 ;;
  esac
  shift
done
[ "$(id -u)" = 0 ] || { echo "$0: run as root (postfix and smtp-sink change user)" >&2; exit 77; }
for tool in postfix smtp-source smtp-sink $([ $dkim = 0 ] || echo opendkim openssl); do
  command -v "$tool" >/dev/null || { echo "$0: $tool is missing" >&2; exit 69; }
done
case $workload in
  plain) domains=1 hosts=1 length=17000 ;;
  receipt) domains=40 hosts=8 length=20000 ;;
  100k) domains=1 hosts=1 length=100000 ;;
  *) echo "$0: the workload $workload is unknown" >&2; exit 64 ;;
esac

open_port() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }
free_port() { local p; while p=$((20000 + RANDOM % 10000)); open_port 127.0.0.1 "$p"; do :; done; echo "$p"; }
wait_port() { for _ in $(seq 100); do open_port "$1" "$2" && return; sleep 0.1; done; echo "$0: nothing listens on $2" >&2; exit 1; }

pids=() work=$(mktemp -d /tmp/mailctl-bench.XXXXXX) etc=
cleanup() {
  if [ -f "$work/spool/pid/master.pid" ]; then timeout 20 postfix -c "$etc" stop >/dev/null 2>&1 || true; fi
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"
etc=$work/etc; mkdir -p "$etc" "$work/spool" "$work/data"; chown postfix "$work/data"

[ -z "$sink" ] || hosts=0
sink_port=$(free_port)
for host in $(seq "$hosts"); do
  smtp-sink -u postfix -c "127.0.2.$host:$sink_port" 1000 >"$work/sink$host.log" 2>"$work/sink.err" & pids+=($!)
  wait_port "127.0.2.$host" "$sink_port"
done
for domain in $(seq "$domains"); do
  [ -n "$sink" ] && echo "d$domain.example smtp:[${sink%:*}]:${sink#*:}" ||
    echo "d$domain.example smtp:[127.0.2.$((domain % hosts + 1))]:$sink_port"
done >"$etc/transport"
echo 'shop.example discard:' >>"$etc/transport"
arrived() {
  if [ -n "$sink" ]; then
    find "$work"/spool/{maildrop,incoming,active,deferred} -type f 2>/dev/null | awk -v n="$messages" 'END { print n - NR }'
    return
  fi
  for log in "$work"/sink*.log; do tail -c 200 "$log" | tr '\r' '\n' | sed -n 's/.*mesg=//p' | tail -1; done |
    awk '{ sum += $1 } END { print sum + 0 }'
}

port=$(free_port) milter= dkim_pid=
if [ $dkim = 1 ]; then
  dk=$work/dkim; mkdir "$dk"   # a Unix socket: over TCP every milter exchange waits for a delayed ACK
  openssl genrsa -traditional -out "$dk/key.pem" 2048 2>/dev/null; chmod 600 "$dk/key.pem"; chown -R opendkim:postfix "$dk"
  cat >"$dk/conf" <<CONF
Domain shop.example
KeyFile $dk/key.pem
Selector s1
Socket local:$dk/sock
Mode s
Canonicalization relaxed/relaxed
UserID opendkim:postfix
UMask 007
InternalHosts 127.0.0.1
RequireSafeKeys false
CONF
  opendkim -f -x "$dk/conf" 2>"$dk/err" & dkim_pid=$!; pids+=($dkim_pid)
  for _ in $(seq 100); do [ ! -S "$dk/sock" ] || break; sleep 0.1; done
  [ -S "$dk/sock" ] || { cat "$dk/err" >&2; exit 1; }
  milter="smtpd_milters = unix:$dk/sock"
fi

cat >"$etc/main.cf" <<CONF
compatibility_level = 3.6
queue_directory = $work/spool
data_directory = $work/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = bench.local
mydestination =
alias_maps =
local_recipient_maps =
inet_interfaces = loopback-only
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
transport_maps = texthash:$etc/transport
smtpd_recipient_restrictions = permit_mynetworks,reject
smtpd_tls_security_level = none
smtp_tls_security_level = none
disable_dns_lookups = yes
default_process_limit = 100
default_destination_concurrency_limit = 50
initial_destination_concurrency = 20
in_flow_delay = 0
maillog_file = $work/mail.log
maillog_file_prefixes = $work
milter_default_action = tempfail
$([ -z "$sink" ] || printf '%s = %s\n' minimal_backoff_time 1s maximal_backoff_time 4s queue_run_delay 1s smtp_rcpt_timeout 5s)
$milter
CONF
cat >"$etc/master.cf" <<CONF
127.0.0.1:$port inet n - n - - smtpd
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 300 1 qmgr
pickup    unix  n - n 60 1 pickup
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
verify    unix  - - n - 1 verify
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n - - proxymap
smtp      unix  - - n - - smtp
relay     unix  - - n - - smtp
showq     unix  n - n - - showq
error     unix  - - n - - error
retry     unix  - - n - - error
discard   unix  - - n - - discard
anvil     unix  - - n - 1 anvil
scache    unix  - - n - 1 scache
postlog   unix-dgram n - n - 1 postlogd
CONF
timeout 30 postfix -c "$etc" start >/dev/null 2>"$work/start.err" || { cat "$work/start.err" >&2; exit 1; }
wait_port 127.0.0.1 "$port"

inject() { # DOMAIN SESSIONS MESSAGES
  timeout "$timeout" smtp-source ${sink:+-N} -d -s "$2" -m "$3" -l "$length" -f a@shop.example -t "user@d$1.example" "127.0.0.1:$port"
}
start=$(date +%s.%N)
if [ "$domains" = 1 ]; then
  inject 1 "$sessions" "$messages"
else
  sources=() each=$(((messages + domains - 1) / domains)) messages=$(((messages + domains - 1) / domains * domains))
  for first in $(seq "$sessions"); do
    for domain in $(seq "$first" "$sessions" "$domains"); do inject "$domain" 1 "$each"; done & sources+=($!)
  done
  for source in "${sources[@]}"; do wait "$source"; done
fi
mid=$(date +%s.%N)
until got=$(arrived); [ "$got" -ge "$messages" ]; do
  awk -v a="$start" -v b="$(date +%s.%N)" -v t="$timeout" 'BEGIN { exit !(b - a > t) }' && { echo "$0: only $got of $messages arrived" >&2; exit 75; }
  sleep 0.05
done
end=$(date +%s.%N)
# Clock ticks (10 ms) of all of it, processes that have ended among them.
cpu=$(for pid in $(<"$work/spool/pid/master.pid") $(pgrep -P "$(($(<"$work/spool/pid/master.pid")))") $dkim_pid; do
  cut -d ' ' -f 14-17 "/proc/$pid/stat" 2>/dev/null
done | awk '{ sum += $1 + $2 + $3 + $4 } END { print sum }')
# Postfix's own figure, from the first command to the host's 250.
delays() {
  sed -n 's/.*to=<[^>]*@d[0-9]*\.example>.* delay=\([0-9.]*\),.*status=sent.*/\1/p' "$work/mail.log" | sort -g | awk '{ d[NR] = 1000 * $1 }
    END { printf "\"delivered_p50_ms\":%d,\"delivered_p90_ms\":%d,\"delivered_p99_ms\":%d,\"delivered_max_ms\":%d", p(0.5), p(0.9), p(0.99), p(1) }
    function p(share) { return d[1 + int((NR - 1) * share)] }'
}
awk -v n="$messages" -v s="$start" -v m="$mid" -v e="$end" -v cpu="$cpu" -v delays="$([ -z "$sink" ] || echo ",$(delays)")" -v name="postfix$([ $dkim = 0 ] || echo +opendkim)" 'BEGIN {
  printf "{\"peer\":\"%s\",\"inject_per_s\":%.0f,\"end_to_end_per_s\":%.0f,\"cpu_us\":%.0f%s}\n", name, n / (m - s), n / (e - s), 10000 * cpu / n, delays
}'
