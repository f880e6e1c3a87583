#!/usr/bin/env bash
# Compares sampling and training with PyTorch and transformers: the same tiny weights, one thread each, both sides in
# turn, medians.
#
#     PYTHON=/path/to/venv/bin/python host/benches/compare.sh [ROUNDS]
#
# The Python needs: pip install torch==2.11.0 numpy transformers safetensors
set -euo pipefail

rounds=${1:-5}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error

cd "$here/../.."
ours() { cargo bench --quiet --package accredit-torch --bench speed -- "$@"; }
ours weights "$work/model"

for ((round = 1; round <= rounds; round++)); do
    echo "round $round of $rounds" >&2
    ours sampling "$work/model" 3 >>"$work/sampling"
    "$python" "$here/peer_sampling.py" "$work/model" 3 >>"$work/peer_sampling"
    ours training "$work/model" 10 >>"$work/training"
    "$python" "$here/peer_training.py" "$work/model" 10 default >>"$work/peer_training_default"
    "$python" "$here/peer_training.py" "$work/model" 10 fused >>"$work/peer_training_fused"
done

median() { sort -n "$1" | awk '{ n[NR] = $1 } END { printf "%.0f", NR % 2 ? n[(NR + 1) / 2] : (n[NR / 2] + n[NR / 2 + 1]) / 2 }'; }
row() { awk -v name="$1" -v ours="$2" -v peer="$3" 'BEGIN { printf "%-34s %9d %9d %6.2f\n", name, ours, peer, ours / peer }'; }
printf '%-34s %9s %9s %6s\n' 'tokens/s, medians' accredit peer ratio
row 'sampling / generate' "$(median "$work/sampling")" "$(median "$work/peer_sampling")"
row 'training / AdamW' "$(median "$work/training")" "$(median "$work/peer_training_default")"
row 'training / AdamW(fused=True)' "$(median "$work/training")" "$(median "$work/peer_training_fused")"
