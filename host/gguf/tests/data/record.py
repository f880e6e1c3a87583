"""Records blocks of every readable type and what the package `gguf` makes of them: `pip install gguf==0.19.0`, then
`python3 record.py > blocks.json`. Bytes are random but for the shared f16 numbers, which are kept small; so every
bit pattern of small integers and scales may occur."""

import json

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

# Where a block has f16 numbers.
HALVES = {
    "F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}

random = np.random.default_rng(7)
recorded = {}
for name in ["F32", "BF16", *HALVES]:
    block, size = GGML_QUANT_SIZES[Type[name]]
    count = 64 if block == 1 else 4 if block == 32 else 3
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES.get(name, []):
        blocks[:, at : at + 2] = random.normal(0, 0.1, count).astype("<f2").view(np.uint8).reshape(count, 2)
    if name in ["F32", "BF16"]:
        numbers = random.normal(0, 1, count).astype("<f4").view(np.uint8).reshape(count, 4)
        blocks[:] = numbers[:, 4 - size :]
    weights = dequantize(blocks.reshape(1, -1), Type[name]).astype("<f4")
    assert np.isfinite(weights).all() and weights.size == count * block
    recorded[name] = {"blocks": blocks.tobytes().hex(), "weights": weights.tobytes().hex()}
print(json.dumps(recorded, indent=0))
