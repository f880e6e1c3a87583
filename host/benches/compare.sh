#!/usr/bin/env bash
# Compares sampling and training with PyTorch and transformers: the same weights, one thread each, both sides in turn,
# medians. The kinds of work are listed in host/torch/benches/speed.rs.
#
#     PYTHON=/path/to/venv/bin/python host/benches/compare.sh [ROUNDS [SIZE...]]
#
# The Python needs: pip install torch==2.11.0 numpy transformers safetensors
set -euo pipefail

rounds=${1:-3}
sizes=("${@:2}")
[ ${#sizes[@]} -gt 0 ] || sizes=(tiny middle)
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error

cd "$here/../.."
ours() { cargo bench --quiet --package accredit-torch --bench speed -- "$@"; }

median() { sort -n | awk '{ n[NR] = $1 } END { print (NR % 2 ? n[(NR + 1) / 2] : (n[NR / 2] + n[NR / 2 + 1]) / 2) }'; }
column() { cut -d' ' -f"$2" "$1" | median; }

printf '%-26s %10s %10s %6s %12s\n' 'tokens/s, medians' accredit PyTorch ratio 'memory, %'
for size in "${sizes[@]}"; do
    ours weights "$size" "$work/$size"
    for kind in sampling uneven turns training training-default rollouts; do
        out="$work/$size-$kind"
        for ((round = 1; round <= rounds; round++)); do
            ours "${kind%-default}" "$work/$size" 2 >>"$out.ours"
            "$python" "$here/peer.py" "$kind" "$work/$size" 2 >>"$out.peer"
        done
        awk -v name="$size $kind" -v a="$(column "$out.ours" 1)" -v b="$(column "$out.peer" 1)" \
            -v m="$(column "$out.ours" 2)" -v n="$(column "$out.peer" 2)" \
            'BEGIN { printf "%-26s %10d %10d %6.2f %12d\n", name, a, b, a / b, 100 * m / n }'
    done
done
