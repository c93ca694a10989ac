#!/usr/bin/env python3
"""Write tiny random-weight F32 models: `llama` ones, one a head size, for tests of caches and attention on sizes that real models rarely
have; or (--archs) those of tiny_archs.py, for tests of every architecture.

    tools/dev/make_tiny_models.py FOLDER [--head-dims 64 72 80 96 100 128 256] [--layers 2]
    tools/dev/make_tiny_models.py FOLDER --archs [NAME...]

FOLDER/tiny-headN.gguf: 2 layers (or as many as asked for), 64 wide, 4 query and 2 KV heads of N, 320 tokens, context 2048. The same seed gives the same file.
"""
import argparse
import random
import struct
import sys
from pathlib import Path

import tiny_archs
from gguf_writer import GgufWriter, add_llama_metadata, add_llama_tensors, add_vocabulary

SHAPE = {"n_embd": 64, "n_ff": 96, "n_heads": 4, "n_kv_heads": 2, "n_vocab": 320}


def write_model(path, head_dim, n_layers, seed):
    shape = {"n_layers": n_layers, **SHAPE}
    rng = random.Random("%d %d" % (seed, head_dim))

    def normal(mean, spread):
        return lambda n: struct.pack("<%df" % n, *(rng.gauss(mean, spread) for _ in range(n)))

    gguf = GgufWriter()
    add_llama_metadata(gguf, "tiny random, head size %d" % head_dim, head_dim=head_dim, n_ctx=2048, rope_base=10000.0, **shape)
    add_vocabulary(gguf, SHAPE["n_vocab"])
    # Wide enough that attention is uneven and positions matter; norms differ from 1 so that leaving one out is noticed.
    add_llama_tensors(gguf, head_dim=head_dim, weight_type="F32", make_weights=normal(0, 0.15), make_norm=normal(1, 0.1), **shape)
    gguf.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--head-dims", type=int, nargs="+", default=[64, 72, 80, 96, 100, 128, 256])
    parser.add_argument("--archs", nargs="*", metavar="NAME", help="models of tiny_archs.py, all of them without a name")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if any(dim < 2 or dim % 2 for dim in args.head_dims):
        parser.error("a head size is even: rotary positions turn pairs")
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.archs is not None:
        unknown = set(args.archs) - set(tiny_archs.MODELS)
        if unknown:
            parser.error("not known: %s; known are %s" % (", ".join(sorted(unknown)), ", ".join(tiny_archs.MODELS)))
        for name in args.archs or tiny_archs.MODELS:
            tiny_archs.TinyModel(name).write(args.folder / (name + ".gguf"))
        return 0
    for dim in args.head_dims:
        path = args.folder / ("tiny-head%d.gguf" % dim)
        write_model(path, dim, args.layers, args.seed)
        print("%s: %d KB" % (path, path.stat().st_size // 1000))
    return 0


if __name__ == "__main__":
    sys.exit(main())
