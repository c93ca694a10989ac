"""quern run as a user meets it: stdout is the answer alone, the report is right, errors have their exit status."""
import json
import os
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
MODELS = Path(os.environ["QUERN_MODELS"])
SMOL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = MODELS / "gemma-3-270m-q4_k_m.gguf"
TINY = Path(os.environ["QUERN_GOLDEN"]) / "tiny/llama-q4_1.gguf"


def run(*args, stdin=subprocess.DEVNULL, **options):
    kind = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run([QUERN, "run", *map(str, args)], capture_output=True, timeout=120, check=False, **kind, **options)


def needs(path):
    return unittest.skipUnless(path.exists(), "skipped: %s is not in models/; tools/test --models fetches it" % path.name)


class Run(unittest.TestCase):
    def test_usage_errors_have_status_2_and_one_line(self):
        for args in (["-c", "0"], ["-c", "-5"], ["-c", "18446744073709551615"], ["--temp", "-1"], ["--kv-type", "int5"], ["--kv-type", "f16", "--k-type", "f32"],
                     ["--stop", "--temp", "0"], ["--mmap", "--no-mmap"], ["--logit-bias", "320=1"], ["--top-k", "x"], ["--nonsense"], ["--seed", "-1"], ["--system", "x"], ["--template", "chatml"],
                     ["--session", "/nonexistent/x"], ["--session", ""], ["--kv-memory-limit", ""]):
            got = run(TINY, "--raw", "-p", "abc", "-n", 2, *args)
            self.assertEqual(got.returncode, 2, (args, got.stderr))
            self.assertEqual(got.stdout, b"", args)
            self.assertLessEqual(got.stderr.decode().strip().count("\n"), 1, got.stderr)

    def test_an_option_given_twice_has_its_last_value(self):
        def out(*args):
            got = run(TINY, "--raw", "-p", "abc", "-n", 8, "-t", 1, *args)
            self.assertEqual(got.returncode, 0, got.stderr)
            return got.stdout, re.search(rb"types .*", got.stderr).group()

        last = out("--temp", "2", "--seed", "7", "--kv-type", "f32")
        self.assertEqual(out("--seed", "1", "--temp", "0", "--kv-type", "int8", "--temp", "2", "--kv-type", "f32", "--seed=7"), last)
        self.assertNotEqual(out("--temp", "2", "--seed", "1", "--kv-type", "f32"), last)
        # Two models, and options that exclude each other, stay errors.
        for args in (["-m", TINY], ["another"], ["--kv-type", "f16", "--kv-type", "f32", "--v-type", "f32"]):
            self.assertEqual(run(TINY, "--raw", "-p", "abc", "-n", 2, *args).returncode, 2, args)

    def test_a_model_that_is_not_there_has_status_3(self):
        for path in ("no/such/file.gguf", "/tmp"):
            self.assertEqual(run(path if path != "/tmp" else "/tmp/", "-p", "x").returncode, 3)

    def test_a_prompt_longer_than_the_context_names_both_numbers(self):
        got = run(TINY, "--raw", "-p", "abc " * 50, "-c", 16, "-n", 4)
        self.assertEqual((got.returncode, got.stdout), (2, b""))
        self.assertRegex(got.stderr.decode(), r"\d+ tokens.* 16")

    def test_a_context_that_no_memory_holds_is_refused_at_once(self):
        start = time.time()
        got = run(TINY, "--raw", "-p", "abc", "-n", 4, "-c", 100_000_000_000)
        self.assertIn(got.returncode, (1, 2))
        self.assertEqual(got.stdout, b"")
        self.assertLess(time.time() - start, 5)

    def test_json_and_seed(self):
        first = json.loads(run(TINY, "--raw", "-p", "abc", "-n", 8, "--temp", 1, "--ignore-eos", "--json").stdout)
        again = json.loads(run(TINY, "--raw", "-p", "abc", "-n", 8, "--temp", 1, "--ignore-eos", "--json", "--seed", first["seed"], "--threads", 1).stdout)
        self.assertEqual(first["tokens"], again["tokens"])
        self.assertEqual(first["finish_reason"], "length")
        self.assertEqual(len(first["kv"]["per_layer"]), first["kv"]["layers"])

    def test_loading_and_page_in_are_reported_apart_from_prefill(self):
        mapped = json.loads(run(TINY, "--raw", "-p", "abc", "-n", 2, "--json").stdout)["timings"]
        self.assertGreater(min(mapped["load_ms"], mapped["page_in_ms"], mapped["prefill_ms"]), 0)
        self.assertEqual(json.loads(run(TINY, "--raw", "-p", "abc", "-n", 2, "--json", "--no-mmap").stdout)["timings"]["page_in_ms"], 0)
        self.assertRegex(run(TINY, "--raw", "-p", "abc", "-n", 2).stderr.decode(), r"loading +\d+ ms, then \d+ ms to bring the weights into memory")

    def test_the_report_goes_to_stderr_and_can_be_left_out(self):
        got = run(TINY, "--raw", "-p", "abc", "-n", 2, "--kv-report=json")
        self.assertEqual(json.loads(got.stderr.decode().strip().splitlines()[-1])["layers"], 2)
        self.assertNotIn(b"KV cache", run(TINY, "--raw", "-p", "abc", "-n", 2, "--no-kv-report").stderr)

    def test_context_full_ends_with_its_own_reason(self):
        got = json.loads(run(TINY, "--raw", "-p", "abc", "-n", -1, "-c", 24, "--temp", 0, "--ignore-eos", "--json").stdout)
        self.assertEqual(got["finish_reason"], "context")

    def test_stdin_and_files_are_taken_byte_for_byte(self):
        argument = run(TINY, "--raw", "-p", "ab", "--dump-tokens").stdout.split()
        piped = run(TINY, "--raw", "--dump-tokens", stdin=b"ab").stdout.split()
        dash = run(TINY, "-", "--raw", "--dump-tokens", stdin=b"ab\n").stdout.split()
        self.assertEqual(argument, piped)
        self.assertEqual(len(dash), len(piped) + 1)

    def test_openmp_waits_briefly_unless_the_user_chose(self):
        bare = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")}
        for chosen, seen in (({}, b"GOMP_SPINCOUNT=2000"), ({"OMP_WAIT_POLICY": "active"}, None)):
            child = subprocess.Popen([QUERN, "run", str(TINY), "--raw", "-n", "1", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**bare, **chosen})
            environ = Path("/proc/%d/environ" % child.pid)
            for _ in range(100 if seen else 10):
                variables = environ.read_bytes().split(b"\0")
                if seen in variables:
                    break
                time.sleep(0.02)
            self.assertEqual(seen in variables, seen is not None)
            self.assertEqual([v for v in variables if v.startswith(b"GOMP")], [seen] if seen else [])
            child.communicate(b"abc", timeout=60)
            self.assertEqual(child.returncode, 0)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            got = subprocess.run([QUERN, "run", str(TINY), "--raw", "-p", "abc", "-n", "4", "--ignore-eos"], stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60, check=False)
            for command in ([QUERN, "--help"], [QUERN, "run", "--help"], [QUERN, "--version"]):
                self.assertEqual(subprocess.run(command, stdout=full, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode, 1, command)
        self.assertEqual(got.returncode, 1)

    def test_forcing_an_instruction_set(self):
        env = dict(os.environ, QUERN_ISA="mmx")
        self.assertEqual(run(TINY, "--raw", "-p", "abc", env=env).returncode, 2)
        got = run(TINY, "--raw", "-p", "abc", "-n", 1, "--json", env=dict(os.environ, QUERN_ISA="scalar"))
        self.assertEqual(json.loads(got.stdout)["isa"], "scalar")


class RealModels(unittest.TestCase):
    @needs(SMOL)
    def test_paris(self):
        got = run(SMOL, "--raw", "-p", "The capital of France is", "-n", 1, "--temp", 0)
        self.assertEqual(got.stdout, b" Paris")
        report = json.loads(run(SMOL, "--raw", "-p", "The capital of France is", "-n", 1, "--temp", 0, "-c", 2048, "--kv-type", "f16", "--kv-report=json").stderr)
        self.assertEqual(report["bytes_per_token"], 23040)

    @needs(SMOL)
    def test_stop_text_across_tokens(self):
        got = run(SMOL, "--raw", "-p", "1, 2, 3, 4, 5, 6, 7,", "-n", 40, "--temp", 0, "--stop", "10, 11")
        self.assertEqual(got.stdout, b" 8, 9, ")

    @needs(SMOL)
    def test_end_of_turn_gives_nothing(self):
        got = json.loads(run(SMOL, "-p", "hi", "-n", 4, "--temp", 0, "--logit-bias", "2=100", "--json").stdout)
        self.assertEqual((got["text"], got["finish_reason"]), ("", "stop"))

    @needs(SMOL)
    def test_user_text_never_becomes_a_control_token(self):
        ids = run(SMOL, "-p", "x<|im_end|>y", "--dump-tokens").stdout.split()
        self.assertEqual(ids.count(b"2"), 2)  # system turn and user turn, by the template

    @needs(SMOL)
    def test_memory_with_a_large_context(self):
        child = subprocess.Popen([QUERN, "run", str(SMOL), "--raw", "-p", "one two three four five six seven eight nine ten", "-n", "4", "--temp", "0", "-c", "8192", "--kv-report=json"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        report = json.loads(child.stderr.read())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stderr.close()
        self.assertEqual(child.returncode, 0)
        self.assertLess(usage.ru_maxrss * 1024, SMOL.stat().st_size + 60e6)
        self.assertGreater(report["reserved_bytes"], 10 * report["used_bytes"])

    @needs(GEMMA)
    def test_gemma_report(self):
        report = json.loads(run(GEMMA, "--raw", "-p", "Hello", "-n", 1, "--temp", 0, "-c", 4096, "--kv-report=json").stderr)
        self.assertEqual((report["head_dim"], len(report["windowed_layers"]), report["layers"]), (256, 15, 18))
        self.assertNotIn(5, report["windowed_layers"])

    @needs(GEMMA)
    def test_a_base_model_has_no_template(self):
        got = run(GEMMA, "-p", "Hello")
        self.assertEqual(got.returncode, 2)
        self.assertIn(b"--raw", got.stderr)

    @needs(SMOL)
    def test_interrupt_during_prefill_and_decode(self):
        for prompt, wait in (("word " * 6000, 0.6), ("Count: 1, 2, 3,", 0.8)):
            child = subprocess.Popen([QUERN, "run", str(SMOL), "--raw", "-n", "-1", "-c", "8192", "--temp", "0", "--ignore-eos", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            child.stdin.write(prompt.encode())
            child.stdin.close()
            time.sleep(wait)
            sent = time.time()
            child.send_signal(signal.SIGINT)
            child.stdin = None
            _, err = child.communicate(timeout=30)
            self.assertLess(time.time() - sent, 5)
            self.assertEqual(child.returncode, 130)
            self.assertIn(b"KV cache", err)


if __name__ == "__main__":
    unittest.main()
