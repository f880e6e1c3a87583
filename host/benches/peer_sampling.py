"""Tokens per second of transformers' generate, one thread: 64 prompts of 32 tokens, 128 new tokens, no stop.

    python peer_sampling.py MODEL ROUNDS

Prints one number a round, after a round that is not counted.
"""

import sys
import time

import torch
from transformers import AutoModelForCausalLM

PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 64, 32, 128

torch.set_num_threads(1)
folder, rounds = sys.argv[1], int(sys.argv[2])
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
# No stop token, so that every answer has its full length, and no processor that watches for one.
model.generation_config.eos_token_id = None
model.generation_config.pad_token_id = 0
torch.manual_seed(0)
prompts = torch.randint(0, model.config.vocab_size, (PROMPTS, PROMPT_TOKENS))
mask = torch.ones_like(prompts)
for round in range(rounds + 1):
    start = time.perf_counter()
    with torch.inference_mode():
        ids = model.generate(prompts, attention_mask=mask, do_sample=True, top_k=0, temperature=1.0, max_new_tokens=NEW_TOKENS)
    seconds = time.perf_counter() - start
    assert ids.shape == (PROMPTS, PROMPT_TOKENS + NEW_TOKENS)
    if round:
        print(f"{PROMPTS * NEW_TOKENS / seconds:.1f}", flush=True)
