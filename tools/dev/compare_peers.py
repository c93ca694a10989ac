#!/usr/bin/env python3
"""Measure quern, llama.cpp and ik_llama.cpp side by side: in turns, one process an engine a round, medians and ratios.

    tools/dev/compare_peers.py --setup                        once: a virtual environment with the two peers
    tools/dev/compare_peers.py                                the models that are in models/
    tools/dev/compare_peers.py MODEL... --depths 512 4096 --kv f16 int8 --threads 1 2 --rounds 5 --repack

Prints a Markdown table. Prefill is the speed of reading DEPTH tokens into an empty cache, decode that of the tokens that follow
them. A ratio is the median of the ratios of each round, because engines measured within the same minute share its noise.
Figures of a busy machine are noise; the table says how busy it was.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PEER_PACKAGES = ["xllamacpp==2026.10.11549", "ik-llama-cpp-python==0.1.5"]
TIMEOUT_S = 1800


class EngineError(Exception):
    """An engine could not be measured; the message says which, and its own last words."""


def run_json_lines(command, what):
    """Runs a command and returns the JSON objects among its output lines."""
    try:
        result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError("%s: %s" % (what, error)) from error
    if result.returncode != 0:
        raise EngineError("%s ended with status %d: %s" % (what, result.returncode, " ".join(result.stderr.split()[-40:])))
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


class PythonPeer:
    """An engine behind a script of this folder that takes --threads --prompt-tokens --gen-tokens --kv --repeat and prints a line a depth."""
    KV_NAMES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}

    def __init__(self, label, python, script, *options):
        self.label, self.command = label, [python, HERE / script, *options]

    def measure(self, model, threads, kv, depths, gen_tokens):
        """{depth: (prefill tokens/s, decode tokens/s)}, or None where the engine has no such cache type."""
        if kv not in self.KV_NAMES:
            return None
        lines = run_json_lines([*self.command, model, "--threads", threads, "--kv", self.KV_NAMES[kv], "--repeat", 1,
                                "--gen-tokens", gen_tokens, "--prompt-tokens", *depths], self.label)
        return {line["depth"]: (line["pp_tps"], line["tg_tps"]) for line in lines}


class Quern:
    """quern by its own `bench --json`, which checks the tokens behind every speed."""
    label = "quern"

    def __init__(self, binary):
        self.binary = binary

    def measure(self, model, threads, kv, depths, gen_tokens):
        lines = run_json_lines([self.binary, "bench", model, "--threads", threads, "--kv-types", kv, "--depths", ",".join(map(str, depths)),
                                "--gen", gen_tokens, "--repeats", 1, "--json", "--quiet"], "quern bench")
        return {line["depth"]: (line["pp_tps"], line["tg_tps"]) for line in lines if line["bench"] == "depth"}


def make_engines(args):
    python = args.peers_python
    engines = {"quern": [Quern(args.quern)],
               "llama": [PythonPeer("llama.cpp", python, "peer_bench.py")],
               "ik": [PythonPeer("ik_llama.cpp", python, "ik_bench.py")]}
    if args.repack:  # a second variant; the better of the two counts
        engines["ik"].append(PythonPeer("ik_llama.cpp repacked", python, "ik_bench.py", "--repack"))
    unknown = [name for name in args.engines if name not in engines]
    if unknown:
        raise EngineError("no engine is called '%s'; there are quern, llama, ik" % unknown[0])
    return {name: engines[name] for name in args.engines}


class Samples:
    """speeds[engine][variant][(depth, phase)] = one figure a round, for one model, thread count and cache type."""

    def __init__(self):
        self.speeds = {}

    def add(self, name, variant, result):
        for depth, phases in result.items():
            for phase, speed in zip(("prefill", "decode"), phases):
                self.speeds.setdefault(name, {}).setdefault(variant, {}).setdefault((depth, phase), []).append(speed)

    def best(self, name, key):
        """The figures of the engine's fastest variant."""
        rows = [variant[key] for variant in self.speeds.get(name, {}).values() if key in variant]
        return max(rows, key=statistics.median, default=None)

    def ratio(self, over, under, key):
        a, b = self.best(over, key), self.best(under, key)
        if not a or not b:
            return None
        return statistics.median(x / y for x, y in zip(a, b))


def measure_case(engines, model, threads, kv, args, failures):
    samples = Samples()
    broken = set()
    for number in range(args.rounds):
        for name, variants in engines.items():
            for variant in variants:
                if variant.label in broken:
                    continue
                try:
                    result = variant.measure(model, threads, kv, args.depths, args.gen_tokens)
                except EngineError as error:
                    broken.add(variant.label)
                    failures.append("%s, %s, %d threads: %s" % (Path(model).name, kv, threads, error))
                    print(failures[-1], file=sys.stderr, flush=True)
                    continue
                if result is not None:
                    samples.add(name, variant.label, result)
        if args.verbose:
            print("%s %s %d threads: round %d of %d" % (Path(model).name, kv, threads, number + 1, args.rounds), file=sys.stderr, flush=True)
    return samples


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def print_table(cases, engines, args):
    names = list(engines)
    titles = {"quern": "quern", "llama": "llama.cpp", "ik": "ik_llama.cpp" + (" (best of as-is and repacked)" if args.repack else "")}
    pairs = [("quern", peer) for peer in names if peer != "quern"] if "quern" in names else [(a, b) for a in names[1:] for b in names[:1]]
    header = ["model", "KV", "threads", "what"] + [titles[n] for n in names] + ["%s / %s" % (a, b) for a, b in pairs]
    print("Tokens/s, medians of %d rounds in turns; %s; load average before the start %.1f." % (args.rounds, cpu_name(), args.load))
    print()
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for (model, kv, threads), samples in cases.items():
        for depth in args.depths:
            for phase, what in (("prefill", "prefill %d" % depth), ("decode", "decode %d at depth %d" % (args.gen_tokens, depth))):
                key = (depth, phase)
                figures = [samples.best(n, key) for n in names]
                cells = ["%.0f" % statistics.median(f) if f else "–" for f in figures]
                ratios = [samples.ratio(a, b, key) for a, b in pairs]
                cells += ["%.2f" % r if r else "–" for r in ratios]
                print("| " + " | ".join([Path(model).name, kv, str(threads), what] + cells) + " |")


def setup(python):
    venv = Path(python).parent.parent
    print("making %s with %s" % (venv, ", ".join(PEER_PACKAGES)), file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--disable-pip-version-check", *PEER_PACKAGES], check=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="GGUF files (default: those in models/)")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["quern", "llama", "ik"], help="quern,llama,ik")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depths", type=int, nargs="+", default=[512])
    parser.add_argument("--gen-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--kv", nargs="+", choices=["f32", "f16", "bf16", "int8", "fp8", "int4"], default=["f16"])
    parser.add_argument("--repack", action="store_true", help="measure ik_llama.cpp repacked too; the better counts")
    parser.add_argument("--quern", default=str(ROOT / "build" / "quern"), help="the binary (default: build/quern)")
    parser.add_argument("--peers-python", default=str(ROOT / ".venv-peers/bin/python"), help="python3 that has the peers (default: .venv-peers)")
    parser.add_argument("--setup", action="store_true", help="make that environment and stop")
    parser.add_argument("--raw", type=Path, metavar="FILE", help="also write every single figure as JSON")
    parser.add_argument("--verbose", action="store_true", help="a line a round on stderr")
    args = parser.parse_args()
    if min(args.rounds, args.gen_tokens, *args.depths, *args.threads) < 1:
        parser.error("rounds, depths, threads and tokens are at least 1")
    args.load = os.getloadavg()[0]
    return args


def main():
    args = parse_arguments()
    if args.setup:
        setup(args.peers_python)
        return 0
    engines = make_engines(args)
    models = args.models or sorted(str(path) for path in (ROOT / "models").glob("*.gguf"))
    if not models:
        raise EngineError("no model is named, and models/ holds none: models/fetch brings some")
    if "quern" not in engines or len(engines) > 1:
        if not Path(args.peers_python).exists():
            raise EngineError("%s is not there; --setup makes it" % args.peers_python)
    if args.load > 0.5:
        print("note: the load average is %.1f; figures of a busy machine are noise" % args.load, file=sys.stderr)
    cases, failures = {}, []
    for model in models:
        for kv in args.kv:
            for threads in args.threads:
                cases[model, kv, threads] = measure_case(engines, model, threads, kv, args, failures)
    print_table(cases, engines, args)
    if args.raw:
        rows = [{"model": Path(m).name, "kv": kv, "threads": t, "engine": v, "depth": d, "phase": p, "tokens_per_s": figures}
                for (m, kv, t), samples in cases.items() for e in samples.speeds.values() for v, keys in e.items()
                for (d, p), figures in keys.items()]
        args.raw.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EngineError as error:
        print("compare_peers: %s" % error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
