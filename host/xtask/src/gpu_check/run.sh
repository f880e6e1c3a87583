#!/usr/bin/env bash
# Checks the GPU of this machine in at most ten minutes. It needs no network and no Rust: only a Python that has
# torch 2.11.0 with CUDA, as pip installs it, for its libraries.
#
#     ./run.sh [PYTHON [ARGUMENT...]]     arguments are those of `accredit device check`
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${1:-python3}
shift || true

torch=$("$python" -c '
import importlib.util, sys
found = importlib.util.find_spec("torch")
print(found.submodule_search_locations[0] if found else "")
')
if [ -z "$torch" ]; then
    echo "error: $python has no torch; name a Python that has torch 2.11.0 with CUDA" >&2
    exit 1
fi
version=$(sed -n "s/^__version__ = ['\"]\(.*\)['\"]/\1/p" "$torch/version.py")
case $version in
2.11.0*) ;;
*)
    echo "error: $torch is version ${version:-unknown}, and the program was built for 2.11.0" >&2
    exit 1
    ;;
esac

export LD_LIBRARY_PATH="$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec timeout 600 "$here/accredit" device check "$here/configs/device-check.toml" --device cuda "$@"
