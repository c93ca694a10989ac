"""quern run --session: what it keeps, what it refuses, and that a kill at any moment leaves the old file or the new one."""
import json
import os
import random
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

QUERN = os.environ["QUERN"]
TINY = Path(os.environ["QUERN_GOLDEN"]) / "tiny/llama-q4_1.gguf"
GEMMA = Path(os.environ["QUERN_GOLDEN"]) / "tiny/gemma3.gguf"
TEXT = " ".join(str(n * 7919 % 1000) for n in range(400))
N_KILLS = 100


def command(session, prompt, *args, model=TINY):
    return [QUERN, "run", str(model), "--raw", "-p", prompt, "-n", "4", "--temp", "0", "--ignore-eos", "-c", "4096", "-t", "1", "--session", str(session), *args]


def run(*args, **more):
    return subprocess.run(command(*args, **more), capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False)


class SessionFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "session"

    def test_a_prompt_that_begins_like_the_last_one_is_read_from_there_on(self):
        for model in (TINY, GEMMA):
            self.file.unlink(missing_ok=True)
            first = json.loads(run(self.file, TEXT[:400], "--json", model=model).stdout)
            self.assertEqual(first["session"]["restored_tokens"], 0)
            self.assertEqual(first["session"]["saved_tokens"], first["kv"]["used_tokens"])
            longer = json.loads(run(self.file, TEXT[:600], "--json", model=model).stdout)
            self.assertEqual(longer["session"]["restored_tokens"], first["session"]["saved_tokens"])
            self.assertGreater(longer["timings"]["reused_tokens"], 300)
            self.assertEqual(longer["timings"]["reused_tokens"] + longer["timings"]["prefill_tokens"], len(longer["prompt_tokens"]))
            cold = json.loads(run(self.file.with_name("cold"), TEXT[:600], "--json", model=model).stdout)
            self.assertEqual(longer["tokens"], cold["tokens"])
            shorter = json.loads(run(self.file, TEXT[:200], "--json", model=model).stdout)
            self.file.with_name("cold").unlink()
            cold = json.loads(run(self.file.with_name("cold"), TEXT[:200], "--json", model=model).stdout)
            self.assertEqual(shorter["tokens"], cold["tokens"])
            self.assertEqual(shorter["kv"]["used_tokens"], cold["kv"]["used_tokens"])
            self.file.with_name("cold").unlink()

    def test_the_notices_name_tokens_and_file(self):
        run(self.file, "abc")
        got = run(self.file, "abcdef").stderr.decode()
        self.assertRegex(got, r"session: \d+ tokens restored from '.*session' in .* ms \(.*\), \d+ of them re-used")
        self.assertRegex(got, r"session: \d+ tokens saved to '.*session'")
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    def test_what_does_not_fit_is_refused_and_the_file_kept(self):
        run(self.file, "abc")
        before = self.file.read_bytes()
        for args, status, text in ((["--kv-type", "int8"], 2, "--kv-type f16"), (["--act", "f32"], 2, "--act int8")):
            got = run(self.file, "abc", *args)
            self.assertEqual((got.returncode, got.stdout), (status, b""), got.stderr)
            self.assertIn(text, got.stderr.decode())
        self.assertEqual(run(self.file, "abc", model=GEMMA).returncode, 2)
        self.assertEqual(self.file.read_bytes(), before)
        damaged = before[:5000] + b"x" + before[5001:]
        for bad, status in ((damaged, 1), (before[:-1], 1), (b"my notes", 2)):
            self.file.write_bytes(bad)
            got = run(self.file, "abc")
            self.assertEqual((got.returncode, got.stdout), (status, b""), got.stderr)
            self.assertEqual(self.file.read_bytes(), bad)

    def test_killed_while_saving_the_old_file_or_the_new_one_is_there(self):
        whole = {}
        for prompt in (TEXT[:900], TEXT[300:1200]):
            fresh = self.file.with_name("fresh")
            self.assertEqual(run(fresh, prompt).returncode, 0)
            whole[prompt] = fresh.read_bytes()
            fresh.rename(self.file)
        rng, prompts = random.Random(1), list(whole)
        temporary, seen = self.file.with_name("session.tmp"), set()
        during = 0
        for i in range(N_KILLS):
            child = subprocess.Popen(command(self.file, prompts[i % 2]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            temporary.unlink(missing_ok=True)
            deadline = time.time() + 60
            while not temporary.exists() and child.poll() is None and time.time() < deadline:
                pass
            time.sleep(rng.random() * 0.004)
            child.kill()
            child.wait(timeout=60)
            during += child.returncode == -9 and temporary.exists()
            content = self.file.read_bytes()
            self.assertIn(content, whole.values(), "kill %d left a file that is neither the old nor the new one" % i)
            seen.add(content)
        print("%d kills, %d of them while the new file was being written" % (N_KILLS, during))
        self.assertGreater(during, N_KILLS // 10)
        self.assertEqual(run(self.file, prompts[0]).returncode, 0)
        self.assertEqual(self.file.read_bytes(), whole[prompts[0]])
        self.assertFalse(temporary.exists())


if __name__ == "__main__":
    unittest.main()
