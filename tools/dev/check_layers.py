#!/usr/bin/env python3
"""Is the map of the house true? Reads the sources (and, given a build folder, its objects) and fails where a rule is broken.

    tools/dev/check_layers.py [--root DIR] [--build-dir DIR]
    tools/dev/check_layers.py --self-test        plants every kind of fault in a copy and sees that it is caught

The rules are the tables below; an exception is a row in one of them, with its reason. Prints one line a fault:
`file:line: rule: what was found; what is allowed`.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# What each room of src/ may include besides itself, the standard library and quern/error.h.
ROOMS = {
    "base": [],
    "quant": ["base"],
    "gguf": ["base", "quant/format.h"],
    "kernels": ["base", "quant"],
    "parallel": ["base"],
    "text": ["base", "gguf"],
    "model": ["base", "quant", "gguf"],
    "kv": ["base", "quant", "kernels"],
    "ops": ["base", "quant", "gguf", "kernels", "parallel", "model", "kv"],
    "engine": ["base", "quant", "gguf", "kernels", "parallel", "text", "model", "kv", "ops", "quern"],
}
# tools/ sees the public face and base; these commands show what lies below it and may look there.
TOOLS = ["quern", "base"]
TOOL_EXCEPTIONS = {
    "tools/cmd_inspect.cpp": ["gguf", "quant", "text", "model/describe.h"],
    "tools/kv_plan.h": ["gguf"],
    "tools/kv_plan.cpp": ["model", "kv"],
    "tools/cmd_quantize.cpp": ["gguf", "quant"],
    "tools/cmd_logits.cpp": ["gguf", "quant", "text", "model", "kv"],
    "tools/cmd_tokenize.cpp": ["gguf", "text"],
    "tools/cmd_template.cpp": ["gguf", "text"],
}
# Libraries of others, and who may use them. What is not named here is the standard library's or the system's.
LIBRARIES = {
    r"fmt/": ["src", "tools"],
    r"nlohmann/": ["src/text", "src/engine", "tools"],
    r"pcre2\.h": ["src/text"],
    r"CLI/": ["tools"],
    r"histedit\.h|editline/": ["tools"],
    r"httplib\.h": ["tools"],
}
# Files that hold one table (a codebook, Unicode ranges) may be longer than MAX_LINES.
MAX_LINES = 500
TABLE_FILE = re.compile(r"src/(quant|text)/\w*(codebook|unicode|grid)\w*\.(cpp|h|inl)$")

# Those of the table, and more that somebody might write.
ARCH_NAMES = """llama qwen2 qwen2moe qwen3 qwen3moe gemma gemma2 gemma3 gemma3n phi2 phi3 gpt2 gptneox gpt-oss deepseek deepseek2 olmo
    olmo2 olmoe starcoder starcoder2 falcon mistral mixtral mistral3 command-r cohere2 granite granitemoe stablelm bloom mpt baichuan
    internlm2 minicpm smollm3 nemotron exaone glm4 chatglm orion jais mamba rwkv6 bert""".split()
ARCH_PLACES = ["src/model/archs.cpp", "src/text/"]  # in text/ the same words name kinds of tokenizers

OMP_PLACES = ["src/parallel/"]
INTRINSIC_PLACES = ["src/kernels/avx2/", "src/kernels/avx512/", "src/base/cpu.cpp"]
INTRINSIC_EXCEPTIONS = {"src/parallel/": ["__builtin_ia32_pause", "_mm_pause"]}  # spinning is not arithmetic

LIBM = """exp exp2 exp10 expm1 log log2 log10 log1p pow sin cos tan sincos asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc
    cbrt hypot tgamma lgamma""".split()
LIBM_NAMES = "|".join(LIBM)

OMP = re.compile(r"#\s*pragma\s+omp\b|_Pragma\s*\(\s*\"omp\b|\bomp_[a-z]\w*\s*\(|<omp\.h>")
INTRINSIC = re.compile(r"\b_mm\d*_\w+|\b__m(?:64|128|256|512)\w*|\b__builtin_ia32_\w+|<\w*intrin\.h>")
RECIPROCAL = re.compile(r"\b_mm\d*_(?:mask_|maskz_)?r(?:cp|sqrt)\w*|\b__builtin_ia32_r(?:cp|sqrt)\w*|\bv?r(?:cp|sqrt)(?:14|28)?[ps][sdh]\b")
LIBM_QUALIFIED = re.compile(r"(?<![\w:])(?:std)?::(?:%s)[fl]?\s*\(|(?<![\w.:>])(?:%s)[fl]\s*\(" % (LIBM_NAMES, LIBM_NAMES))
LIBM_PLAIN = re.compile(r"(?<![\w.:>~])(?:%s)\s*\(" % LIBM_NAMES)
LIBM_EXCEPTIONS = ["src/engine/perplexity.cpp"]  # statistics of finished logits; nothing of it reaches a token
UNSAFE_MATH = re.compile(r"-ffast-math|-Ofast|-march=native|-funsafe-math|-fassociative-math|-freciprocal-math|\boptimize\s*\(\s*\"|"
                         r"#\s*pragma\s+GCC\s+optimize|FP_CONTRACT\s+ON")
INCLUDE = re.compile(r"^\s*#\s*include\s*([<\"])([^>\"]+)[>\"]")
STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"")
CODE_SUFFIXES = {".cpp", ".h", ".inl"}
LIBM_SYMBOL = re.compile(r"^(?:%s)[fl]?$|^_ZGV\w+_(?:%s)f?$" % (LIBM_NAMES, LIBM_NAMES))  # the latter: libmvec


def strip_comments(text):
    """The text without comments, line numbers kept; comment marks inside string and character literals stay."""
    pattern = r"R\"(\w*)\(.*?\)\1\"|\"(?:[^\"\\\n]|\\.)*\"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'|//[^\n]*|/\*.*?\*/"

    def keep(match):
        token = match.group(0)
        return "\n" * token.count("\n") + " " if token.startswith(("//", "/*")) else token
    return re.sub(pattern, keep, text, flags=re.DOTALL)


class Checker:
    def __init__(self, root):
        self.root, self.faults, self.n_files = root, [], 0
        table = root / "src/model/archs.cpp"
        self.arch_names = {*ARCH_NAMES, *re.findall(r'\.name = "([^"]+)"', table.read_text(encoding="utf-8") if table.exists() else "")}

    def fault(self, path, line, rule, text):
        self.faults.append("%s:%d: %s: %s" % (path, line, rule, text))

    def sources(self, *folders):
        for folder in folders:
            for path in sorted((self.root / folder).rglob("*")):
                if path.is_file() and (path.suffix in CODE_SUFFIXES or (path.suffix == ".py" and folder != "src")):
                    yield path.relative_to(self.root).as_posix(), path

    def run(self):
        for name, path in self.sources("src", "include", "tools", "tests"):
            text = path.read_text(encoding="utf-8", errors="replace")
            self.n_files += 1
            self.check_length(name, text.count("\n"))
            if path.suffix != ".py":
                self.check_code(name, path, strip_comments(text).splitlines())
        for path in [self.root / "CMakeLists.txt", self.root / "CMakePresets.json", *sorted((self.root / "cmake").glob("*.cmake"))]:
            if path.exists():
                lines = [line.split("#")[0] for line in path.read_text(encoding="utf-8").splitlines()]
                self.check_pattern(path.relative_to(self.root).as_posix(), lines, UNSAFE_MATH, "unsafe math", "no flag may reorder or approximate arithmetic")

    def check_length(self, name, n_lines):
        if n_lines > MAX_LINES and not TABLE_FILE.match(name):
            self.fault(name, n_lines, "length", "%d lines, at most %d; which two things is it?" % (n_lines, MAX_LINES))

    def check_code(self, name, path, lines):
        in_src = name.startswith("src/")
        if not name.startswith("tests/"):
            self.check_includes(name, path, lines)
        if in_src or name.startswith("tools/"):
            self.check_pattern(name, lines, UNSAFE_MATH, "unsafe math", "no pragma or attribute may reorder arithmetic")
            self.check_pattern(name, lines, RECIPROCAL, "reciprocal", "divide, or 1/sqrt by a true sqrt and division")
            if not name.startswith(tuple(OMP_PLACES)):
                self.check_pattern(name, lines, OMP, "omp", "OpenMP belongs to " + ", ".join(OMP_PLACES))
            if not name.startswith(tuple(INTRINSIC_PLACES)):
                self.check_intrinsics(name, lines)
        if in_src and name not in LIBM_EXCEPTIONS:
            self.check_pattern(name, lines, LIBM_QUALIFIED, "libm", "use base's own functions: libm's differ from CPU to CPU")
            if not name.startswith("src/kernels/"):  # there the vocabulary may have an exp of its own; its objects are looked at below
                self.check_pattern(name, lines, LIBM_PLAIN, "libm", "use base's own functions: libm's differ from CPU to CPU")
        if in_src:
            if not name.startswith(tuple(ARCH_PLACES)):
                self.check_arch_names(name, lines)

    def check_pattern(self, name, lines, pattern, rule, advice):
        for number, line in enumerate(lines, 1):
            for match in pattern.finditer(line):
                self.fault(name, number, rule, "%s; %s" % (match.group(0).strip(), advice))

    def check_intrinsics(self, name, lines):
        allowed = {token for place, tokens in INTRINSIC_EXCEPTIONS.items() if name.startswith(place) for token in tokens}
        for number, line in enumerate(lines, 1):
            for match in INTRINSIC.finditer(line):
                if match.group(0) not in allowed:
                    self.fault(name, number, "intrinsics", "%s; they belong to %s" % (match.group(0), ", ".join(INTRINSIC_PLACES)))

    def check_arch_names(self, name, lines):
        for number, line in enumerate(lines, 1):
            for literal in STRING.findall(line):
                if literal in self.arch_names or literal.split(".")[0] in self.arch_names and "." in literal:
                    self.fault(name, number, "architecture name", '"%s"; a model is described by its row in src/model/archs.cpp' % literal)

    def check_includes(self, name, path, lines):
        allowed = self.allowed_includes(name)
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            kind, target = match.groups()
            if kind == "<":
                for library, places in LIBRARIES.items():
                    if re.match(library, target) and not name.startswith(tuple(place + "/" for place in places)):
                        self.fault(name, number, "include", "<%s>; allowed in %s" % (target, ", ".join(places)))
            elif "/" not in target:
                if not (path.parent / target).is_file():
                    self.fault(name, number, "include", '"%s" does not lie beside this file; write the room before its name' % target)
            elif not any(target == entry or target.startswith(entry + "/") for entry in allowed):
                self.fault(name, number, "include", '"%s"; allowed here: %s' % (target, ", ".join(allowed)))

    @staticmethod
    def allowed_includes(name):
        parts = name.split("/")
        if parts[0] == "include":
            return ["quern"]
        if parts[0] == "tools":
            return TOOLS + TOOL_EXCEPTIONS.get(name, [])
        if parts[1] not in ROOMS:
            return []  # a room that the map does not have: every include of it is reported
        return [parts[1], "quern/error.h", *ROOMS[parts[1]]]


class ObjectChecker(Checker):
    """Looks at symbols: what the linker sees is what counts."""

    def nm(self, path):
        output = subprocess.run(["nm", "--no-demangle", str(path)], capture_output=True, text=True, check=True).stdout
        for line in output.splitlines():
            fields = line.split()
            yield fields[-2], fields[-1]

    def run_objects(self, build_dir):
        for path in sorted(build_dir.rglob("quern_*.dir/**/*.o")):
            name = path.relative_to(build_dir).as_posix()
            if "/src/" not in name:
                continue
            self.n_files += 1
            per_isa = re.match(r"(?:.*/)?quern_kernels_(scalar|avx2|avx512)\.dir/", name)
            for kind, symbol in self.nm(path):
                if kind == "U" and LIBM_SYMBOL.match(symbol) and not name.endswith(tuple(place + ".o" for place in LIBM_EXCEPTIONS)):
                    self.fault(name, 0, "libm symbol", "calls %s; use base's own functions" % symbol)
                if per_isa and kind in "WVu" and not symbol.startswith("DW.ref."):
                    self.fault(name, 0, "weak symbol", "exports %s; the linker could keep this copy, compiled for one instruction set, for "
                               "everyone: give it internal linkage" % symbol)


def check(root, build_dir=None):
    checker = ObjectChecker(root)
    checker.run()
    if build_dir is not None:
        checker.run_objects(build_dir)
    return checker


# rule, file to write, what to put in. Each must be caught where the clean tree is clean.
PLANTED = [
    ("include", "src/base/planted.h", '#include "quant/format.h"\n'),
    ("include", "src/gguf/planted.cpp", '#include "quant/decode.h"\n'),
    ("include", "src/text/planted.cpp", '#include "quern/engine.h"\n'),
    ("include", "src/kernels/avx2/planted.cpp", '#include "parallel/team.h"\n'),
    ("include", "src/ops/planted.cpp", "#  include \"text/tokenizer.h\"\n"),
    ("include", "src/attic/planted.cpp", '#include "base/check.h"\n'),
    ("include", "src/kv/planted.cpp", "#include <nlohmann/json.hpp>\n"),
    ("include", "src/model/planted.cpp", '#include "nowhere.h"\n'),
    ("include", "include/quern/planted.h", '#include "base/check.h"\n'),
    ("include", "tools/cmd_planted.cpp", '#include "engine/session.h"\n'),
    ("include", "tools/cmd_planted.cpp", '#include "gguf/gguf.h"\n'),
    ("length", "src/engine/planted.cpp", "int x;\n" * 501),
    ("length", "tools/dev/planted.py", "x = 1\n" * 501),
    ("architecture name", "src/engine/planted.cpp", 'bool b = arch == "gemma3";\n'),
    ("architecture name", "src/model/planted.cpp", 'auto k = get("llama.rope.freq_base");\n'),
    ("omp", "src/ops/planted.cpp", "#pragma omp parallel for\n"),
    ("omp", "src/engine/planted.cpp", "#include <omp.h>\n"),
    ("omp", "tools/planted.cpp", "int n = omp_get_max_threads();\n"),
    ("intrinsics", "src/quant/planted.cpp", "#include <immintrin.h>\n"),
    ("intrinsics", "src/kernels/scalar/planted.cpp", "auto v = _mm256_setzero_ps();\n"),
    ("intrinsics", "src/parallel/planted.cpp", "__m512i zero;\n"),
    ("libm", "src/ops/planted.cpp", "float f(float x) { return std::exp(x); }\n"),
    ("libm", "src/kernels/avx2/planted.cpp", "float f(float x) { return tanhf(x); }\n"),
    ("libm", "src/kv/planted.cpp", "double f(double x) { return pow (x, 2); }\n"),
    ("libm", "src/engine/planted.cpp", "double f(double x) { return /* a comment */ ::log(x); }\n"),
    ("reciprocal", "src/kernels/avx2/planted.cpp", "auto v = _mm256_rsqrt_ps(x);\n"),
    ("reciprocal", "src/kernels/avx512/planted.cpp", "auto v = _mm512_maskz_rcp14_ps(m, x);\n"),
    ("reciprocal", "src/kernels/avx512/planted.cpp", '__asm__("vrsqrt14ps %0, %0" : "+v"(x));\n'),
    ("unsafe math", "src/kernels/scalar/planted.cpp", '#pragma GCC optimize("O3")\n'),
    ("unsafe math", "cmake/planted.cmake", "add_compile_options(-ffast-math)\n"),
]
# What looks like a fault and is none.
INNOCENT = [
    ("src/engine/innocent.cpp", '// std::exp(x), "llama", #pragma omp, _mm_add_ps\nconst char* url = "http://x"; float y = table.exp(x) + fast_exp(x);\n'),
    ("src/parallel/innocent.cpp", "#include <omp.h>\n#pragma omp parallel\nvoid f() { __builtin_ia32_pause(); }\n"),
    ("src/kernels/avx2/innocent.cpp", "#include <immintrin.h>\nauto v = _mm256_sqrt_ps(x);\n"),
    ("src/model/archs.cpp", 'const char* name = "llama";\n'),
    ("src/quant/codebook_planted.h", "int x;\n" * 900),
    ("tools/kv_plan.cpp", '#include "model/params.h"\n#include "kv/layout.h"\n'),
]
PLANTED_OBJECTS = [
    ("weak symbol", "quern_kernels_avx2.dir", "inline int shared(int x) { return x + 1; }\nint (*table)(int) = shared;\n"),
    ("libm symbol", "quern_ops.dir", "#include <math.h>\nfloat f(float x) { return expf(x); }\n"),
]


def planted_copy(root, folder):
    for name in ("src", "include", "tools", "cmake", "CMakeLists.txt", "CMakePresets.json"):
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).exists():
            shutil.copy(root / name, folder / name)
    return folder


def self_test_sources(root, errors):
    with tempfile.TemporaryDirectory() as folder:
        copy = planted_copy(root, Path(folder))
        for rule, name, text in PLANTED + [(None, name, text) for name, text in INNOCENT]:
            target = copy / name
            before = target.read_text(encoding="utf-8") if target.exists() else None
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            found = [fault for fault in check(copy).faults if fault.startswith(name + ":")]
            if rule is None and found:
                errors.append("innocent text in %s was reported: %s" % (name, found[0]))
            if rule is not None and not any(": %s: " % rule in fault for fault in found):
                errors.append("the fault '%s' planted in %s was not caught: %r" % (rule, name, text[:60]))
            target.unlink() if before is None else target.write_text(before, encoding="utf-8")


def self_test_objects(errors):
    compiler = shutil.which("c++")
    if compiler is None or shutil.which("nm") is None:
        print("skipped: no c++ or nm here, so the object rules are not tried")
        return
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder)
        for rule, target, text in PLANTED_OBJECTS:
            (build / target / "src").mkdir(parents=True)
            (build / "planted.cpp").write_text(text)
            subprocess.run([compiler, "-O1", "-c", str(build / "planted.cpp"), "-o", str(build / target / "src/planted.cpp.o")], check=True)
            faults = check(build, build).faults
            if len(faults) != 1 or ": %s: " % rule not in faults[0]:
                errors.append("the object fault '%s' was not caught alone: %s" % (rule, faults))
            shutil.rmtree(build / target)


def self_test(root):
    errors = []
    self_test_sources(root, errors)
    self_test_objects(errors)
    for error in errors:
        print(error)
    print("self-test: %d faults planted and %d innocents, %d judged wrongly"
          % (len(PLANTED) + len(PLANTED_OBJECTS), len(INNOCENT), len(errors)))
    return 1 if errors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--build-dir", type=Path, help="also look at the objects of this build")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test(args.root)
    checker = check(args.root, args.build_dir)
    for fault in checker.faults:
        print(fault)
    print("%d files read, %d faults" % (checker.n_files, len(checker.faults)))
    return 1 if checker.faults or checker.n_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
