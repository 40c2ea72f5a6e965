#!/usr/bin/env bash
# Records one flame graph: flamegraphs/record.sh NAME writes flamegraphs/NAME.svg.
#
# Needs perf (linux-perf) and inferno (cargo install inferno), and permission to profile (root, or
# kernel.perf_event_paranoid at most 1). RENDEZVOUS names a binary that is built already. What is recorded is a process that already runs: no setup, no other side.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${RECORD_SECONDS:-10}
frequency=${RECORD_FREQUENCY:-499}
names="browse-lock browse-lane transitions-lock transitions-lane publish http-browse http-renewal udp-presence"

fail() { echo "error: $*" >&2; exit 1; }
[ $# -eq 1 ] || fail "expected one of: $names"
name=$1
command -v perf >/dev/null || fail "perf is not installed; try: apt-get install linux-perf"
command -v inferno-flamegraph >/dev/null || fail "inferno is not installed; try: cargo install inferno"

work=$(mktemp -d)
children=()
finish() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

# Waits until a file has a line that matches, while the process lives.
await() {
  for _ in $(seq 600); do
    grep -qaE "$2" "$1" 2>/dev/null && return 0
    kill -0 "$3" 2>/dev/null || { cat "$1" >&2; fail "it ended before it was ready"; }
    sleep 0.1
  done
  cat "$1" >&2
  fail "it was never ready"
}

# Profiles a process and draws what was seen.
draw() {
  perf record --quiet -e cpu-clock -F "$frequency" --call-graph dwarf,16384 -o "$work/perf.data" -p "$1" -- sleep "$seconds"
  perf script --no-inline -i "$work/perf.data" 2>/dev/null >"$work/stacks"
  inferno-collapse-perf <"$work/stacks" >"$work/folded"
  [ -s "$work/folded" ] || fail "perf saw nothing"
  inferno-flamegraph --title "$name" --subtitle "commit $(git rev-parse --short HEAD), $2" --countname ns --minwidth 0.1 \
    <"$work/folded" >"flamegraphs/$name.svg"
  echo "flamegraphs/$name.svg: $(awk '{n += $NF} END {printf "%d", n / 1e6}' "$work/folded") ms of CPU time"
}

# One criterion benchmark in its profiling loop.
bench() {
  local bench=$1 filter=$2 executable
  cargo bench --bench "$bench" --no-run 2>"$work/build" || { cat "$work/build" >&2; exit 1; }
  executable=$(sed -nE 's/.*Executable .*\((.*)\)$/\1/p' "$work/build" | tail -n 1)
  [ -x "$executable" ] || fail "no executable of bench $bench"
  "$executable" --bench --profile-time $((seconds + 60)) "$filter" >"$work/out" 2>&1 &
  children+=($!)
  await "$work/out" "Profiling" $!
  draw $! "cargo bench --bench $bench -- --profile-time N '$filter'"
}

# The server under load from another process.
serve() {
  local mix=$1 server url
  shift
  local program=${RENDEZVOUS:-./target/release/rendezvous}
  [ -n "${RENDEZVOUS:-}" ] || cargo build --release
  "$program" serve --dev --http 127.0.0.1:0 --udp 127.0.0.1:0 --log-level warn >"$work/server" 2>&1 &
  server=$!
  children+=("$server")
  await "$work/server" "^ready http=" "$server"
  url=http://$(sed -nE 's/^ready http=([^ ]+).*/\1/p' "$work/server")
  "$program" load "$mix" --server "$url" --duration $((seconds + 60)) --warm-up 0 "$@" >"$work/load" 2>&1 &
  children+=($!)
  await "$work/load" "^ +2 s " $!
  draw "$server" "rendezvous load $mix $*"
}

case $name in
  browse-lock) bench browse '^browse page of 50/single lock$' ;;
  browse-lane) bench browse '^browse page of 50/lane$' ;;
  transitions-lock) bench transitions '/single lock$' ;;
  transitions-lane) bench transitions '/lane$' ;;
  publish) bench publish "${RECORD_FILTER:-.}" ;;
  http-browse) serve browse --rate 200000 ;;
  http-renewal) serve renew --rate 100000 --listings 1000 --connections 32 ;;
  udp-presence) serve presence --rate 40000 --listings 4000 --connections 64 ;;
  *) fail "expected one of: $names" ;;
esac
