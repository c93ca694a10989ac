#!/usr/bin/env python3
"""Compute the reference logits of tiny models with an independent engine: llama.cpp, by llama-cpp-python's low-level interface.

    python -m venv VENV && VENV/bin/pip install llama-cpp-python==0.3.36 numpy      (builds for some minutes)
    tools/dev/make_tiny_models.py FOLDER --archs [NAME...]
    VENV/bin/python tools/dev/reference_logits.py FOLDER [NAME...]

For each model FOLDER/NAME.gguf writes tests/golden/archs/NAME.json and NAME.logits.f32 (float32 [48, 320]): the logits after each of
48 tokens, with F32 K and V caches, flash attention off, one thread, one batch. Names that are there already are computed again only when given.
"""
import argparse
import ctypes
import hashlib
import json
import random
import sys
from pathlib import Path

import llama_cpp
import numpy as np

from tiny_archs import MODELS, N_VOCAB

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "archs"
N_TOKENS = 48


class Reference:
    """One model in llama.cpp, with the settings of the reference data."""

    def __init__(self, path, n_ctx):
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise SystemExit("%s: llama.cpp cannot load it" % path)
        context = llama_cpp.llama_context_default_params()
        context.n_ctx, context.n_batch, context.n_ubatch = n_ctx, N_TOKENS, N_TOKENS
        context.n_threads = context.n_threads_batch = 1
        context.type_k = context.type_v = 0  # F32
        context.flash_attn_type = 0
        context.swa_full = False
        self.context = llama_cpp.llama_init_from_model(self.model, context)
        if not self.context:
            raise SystemExit("%s: llama.cpp makes no context for it" % path)

    def logits(self, tokens, chunk):
        """The logits after each token, fed `chunk` tokens at a time."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        out = np.empty((len(tokens), N_VOCAB), np.float32)
        batch = llama_cpp.llama_batch_init(N_TOKENS, 0, 1)
        for start in range(0, len(tokens), chunk):
            part = tokens[start:start + chunk]
            batch.n_tokens = len(part)
            for i, token in enumerate(part):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, start + i, 1, True
                batch.seq_id[i][0] = 0
            if llama_cpp.llama_decode(self.context, batch) != 0:
                raise SystemExit("llama.cpp cannot compute tokens %d to %d" % (start, start + len(part) - 1))
            for i in range(len(part)):
                row = llama_cpp.llama_get_logits_ith(self.context, i)
                out[start + i] = np.ctypeslib.as_array(ctypes.cast(row, ctypes.POINTER(ctypes.c_float)), (N_VOCAB,))
        llama_cpp.llama_batch_free(batch)
        return out

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


def compute(folder, name):
    path = folder / (name + ".gguf")
    arch, changes, note = MODELS[name]
    rng = random.Random("tokens " + name)
    tokens = [1] + [rng.randrange(3, N_VOCAB) for _ in range(N_TOKENS - 1)]
    n_ctx = changes.get("n_ctx", 256)
    reference = Reference(path, n_ctx)
    logits = reference.logits(tokens, N_TOKENS)
    split = max(float(np.abs(reference.logits(tokens, chunk) - logits).max()) for chunk in (1, 7))
    reference.close()
    if not np.isfinite(logits).all():
        raise SystemExit("%s: logits that are not finite" % name)
    logits.tofile(GOLDEN / (name + ".logits.f32"))
    facts = {"arch": arch, "note": note, "weights": "F32", "model": name + ".gguf", "model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
             "tokens": tokens, "n_ctx": n_ctx, "n_vocab": N_VOCAB, "logits": name + ".logits.f32", "logits_shape": list(logits.shape),
             "logit_std": float(logits.std()), "batch_split_max_abs_diff": split, "computed_by": "llama-cpp-python " + llama_cpp.__version__}
    (GOLDEN / (name + ".json")).write_text(json.dumps(facts, indent=1) + "\n")
    print("%-16s std %.3f, split %.1e" % (name, facts["logit_std"], split / facts["logit_std"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name in args.names or [n for n in MODELS if not (GOLDEN / (n + ".json")).exists()]:
        compute(args.folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
