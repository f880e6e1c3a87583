#!/usr/bin/env bash
# A long run of short iterations: how long it takes, and whether resident memory stays flat.
#
#     host/benches/soak.sh [ITERATIONS [PROGRAM]]
#
# Prints the seconds of the run, and the median of resident memory in the second tenth of the iterations and in the last.
set -euo pipefail

iterations=${1:-2000}
here=$(cd "$(dirname "$0")/../.." && pwd)
program=${2:-}
if [ -z "$program" ]; then
    (cd "$here" && cargo build --quiet --release)
    program=$here/target/release/accredit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$program" train "$here/configs/quickstart.toml" --run-name soak --set run.folder="$work" --set iterations="$iterations" \
    --set rollout.groups=4 --set rollout.group_size=4 --set warm_start.updates=50 --set evaluation.tasks=16 \
    --set evaluation.every=50 --set checkpoint.every=50 2>"$work/said" &
run=$!
start=$(date +%s)
while kill -0 "$run" 2>/dev/null; do
    memory=$(awk '/^VmRSS:/ { print $2 }' "/proc/$run/status" 2>/dev/null || true)
    done=$(wc -l 2>/dev/null <"$work/soak/metrics.jsonl" || echo 0)
    [ -z "$memory" ] || echo "$done $memory" >>"$work/memory"
    sleep 0.5
done
wait "$run" || { cat "$work/said" >&2; exit 1; }
seconds=$(($(date +%s) - start))

median() { sort -n | awk '{ n[NR] = $1 } END { print n[int((NR + 1) / 2)] }'; }
within() { awk -v from="$(($1 * iterations / 10))" -v to="$(($2 * iterations / 10))" '$1 >= from && $1 < to { print $2 }' "$work/memory"; }
early=$(within 1 2 | median)
late=$(within 9 10 | median)
awk -v n="$iterations" -v s="$seconds" -v a="$early" -v b="$late" 'BEGIN {
    printf "%d iterations in %d s; resident memory %.1f MiB, at the end %.1f MiB (%+.1f %%)\n", n, s, a / 1024, b / 1024, 100 * (b / a - 1)
}'
