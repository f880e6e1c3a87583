"""Tokens per second of a training step in PyTorch eager with transformers, one thread: 16 rows of 128 tokens.

    python peer_training.py MODEL ROUNDS default|fused

Prints one number a step (forward, backward, AdamW), after three steps that are not counted. `fused` is
AdamW(fused=True).
"""

import sys
import time

import torch
from transformers import AutoModelForCausalLM

ROWS, ROW_TOKENS = 16, 128

torch.set_num_threads(1)
folder, rounds, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=kind == "fused")
torch.manual_seed(0)
ids = torch.randint(0, model.config.vocab_size, (ROWS, ROW_TOKENS))
for round in range(rounds + 3):
    start = time.perf_counter()
    optimizer.zero_grad()
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
    seconds = time.perf_counter() - start
    if round >= 3:
        print(f"{ROWS * ROW_TOKENS / seconds:.1f}", flush=True)
