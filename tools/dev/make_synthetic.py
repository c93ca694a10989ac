#!/usr/bin/env python3
"""Write a `llama` GGUF of the 1B class with random weights of a chosen type: for speed figures only, its text is noise.

    tools/dev/make_synthetic.py --type Q4_K synthetic-1b-q4_k.gguf
    tools/dev/make_synthetic.py --experts 64 --experts-used 8 synthetic-moe-q4_k.gguf

The shape is that of a 1B model with grouped queries (16 layers, 2048 wide, 32 query and 8 KV heads of 64, feed-forward 8192) and a
vocabulary of 32,000. Every block is valid: random codes, with factors that give weights a spread of about 0.02, so that activations
stay finite. The same seed gives the same file. With --experts it is a `qwen3moe` of the shape of Qwen3-30B-A3B with fewer layers (12) and
experts of 768, unless told otherwise.
"""
import argparse
import random
import struct
import sys
from pathlib import Path

from gguf_writer import TYPES, GgufWriter, add_llama_metadata, add_llama_tensors, add_vocabulary

SPREAD = 0.02
# Block-quantized types: where each f16 factor stands in the block, and its size for a spread of 1. A random code of b bits
# around its middle spreads by 2^b/√12; sub-scales of 6 bits spread the product further. A minimum's factor centres the codes.
FACTORS = {
    "Q4_0": {0: 1 / 4.6}, "Q4_1": {0: 1 / 4.6, 2: -7.5 / 4.6}, "Q5_0": {0: 1 / 9.2}, "Q5_1": {0: 1 / 9.2, 2: -15.5 / 9.2},
    "Q8_0": {0: 1 / 74}, "Q2_K": {80: 1 / 13.9, 82: 1.5 / 13.9}, "Q3_K": {108: 1 / 42}, "Q4_K": {0: 1 / 257, 2: 7.5 / 257},
    "Q5_K": {0: 1 / 516, 2: 15.5 / 516}, "Q6_K": {208: 1 / 1367},
    "IQ1_S": {0: 1 / 8}, "IQ2_XXS": {0: 1 / 63}, "IQ2_XS": {0: 1 / 63}, "IQ2_S": {0: 1 / 63}, "IQ3_XXS": {0: 1 / 157}, "IQ3_S": {0: 1 / 160},
    "IQ4_NL": {0: 1 / 70}, "IQ4_XS": {0: 1 / 1290}, "TQ1_0": {52: 1.2}, "TQ2_0": {64: 1.2},
}
MXFP4_EXPONENT = 119  # 2^-8 times FP4 values up to 6


def float_table(sign_and_exponent):
    """A byte map that keeps the sign bit (and the low bits given by the mask) of a random high byte and fixes its exponent."""
    keep, fixed = sign_and_exponent
    return bytes((b & keep) | fixed for b in range(256))


def random_floats(rng, n_values, n_bytes, high, below=None):
    """n_values little-endian floats of n_bytes each with a fixed exponent: magnitudes between 1/64 and 1/32, either sign."""
    data = bytearray(rng.randbytes(n_values * n_bytes))
    data[n_bytes - 1::n_bytes] = data[n_bytes - 1::n_bytes].translate(float_table(high))
    if below:
        data[n_bytes - 2::n_bytes] = data[n_bytes - 2::n_bytes].translate(float_table(below))
    return bytes(data)


def random_blocks(rng, type_name, n_blocks):
    if type_name == "F16":
        return random_floats(rng, n_blocks, 2, (0x83, 0x24))
    if type_name in ("BF16", "F32"):
        return random_floats(rng, n_blocks, TYPES[type_name][2], (0x80, 0x3C), (0x7F, 0x80))
    block_bytes = TYPES[type_name][2]
    data = bytearray(rng.randbytes(n_blocks * block_bytes))
    if type_name == "MXFP4":
        data[0::block_bytes] = bytes([MXFP4_EXPONENT]) * n_blocks
    if type_name == "IQ1_M":  # the factor lies in the top nibbles of the last four int16
        for nibble, high in zip(range(4), range(49, 57, 2)):
            top = struct.unpack("<H", struct.pack("<e", SPREAD / 8))[0] >> 4 * nibble & 15
            data[high::block_bytes] = data[high::block_bytes].translate(bytes((b & 15) | top << 4 for b in range(256)))
    for offset, factor in FACTORS.get(type_name, {}).items():
        low, high = struct.pack("<e", factor * SPREAD)
        data[offset::block_bytes] = bytes([low]) * n_blocks
        data[offset + 1::block_bytes] = bytes([high]) * n_blocks
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="FILE.gguf")
    parser.add_argument("--type", choices=sorted(TYPES), default="Q4_K")
    parser.add_argument("--seed", type=int, default=1)
    shape = {"n_layers": 16, "n_embd": 2048, "n_ff": 8192, "n_heads": 32, "n_kv_heads": 8, "head_dim": 64, "n_vocab": 32000}
    expert_shape = {**shape, "n_layers": 12, "n_ff": 768, "n_kv_heads": 4, "head_dim": 128}
    for name in shape:
        parser.add_argument("--" + name.replace("_", "-"), type=int)
    parser.add_argument("--holes", action="store_true", help="leave the data out: a sparse file of the right length, all zeros")
    parser.add_argument("--experts", type=int, default=0, metavar="N", help="experts a layer (default: none)")
    parser.add_argument("--experts-used", type=int, default=8, metavar="N", help="of which a token uses so many (default 8)")
    args = parser.parse_args()
    if args.experts and not 1 <= args.experts_used <= args.experts:
        parser.error("a token uses at least one expert and at most all %d" % args.experts)
    shape = {name: value if getattr(args, name) is None else getattr(args, name) for name, value in (expert_shape if args.experts else shape).items()}

    rng = random.Random(args.seed)
    gguf = GgufWriter()
    add_llama_metadata(gguf, "synthetic %s" % args.type, n_ctx=8192, rope_base=500000.0, n_experts=args.experts,
                       n_experts_used=args.experts_used, **shape)
    add_vocabulary(gguf, shape["n_vocab"])
    try:
        add_llama_tensors(gguf, weight_type=args.type, make_weights=lambda n: random_blocks(rng, args.type, n),
                          make_norm=lambda n: struct.pack("<f", 1.0) * n, n_experts=args.experts, make_router=lambda n: random_blocks(rng, "F32", n), **shape)
    except ValueError as error:
        parser.error(str(error))
    gguf.write(args.out, args.holes)
    print("%s: %.0f MB" % (args.out, args.out.stat().st_size / 1e6))
    return 0


if __name__ == "__main__":
    sys.exit(main())
