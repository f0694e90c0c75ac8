"""
Runs a policy's code under limits, in a sandbox of its own. Arguments: the job's file, and the first and the last test
(not included). Prints one line a test, and stops at the first that does not end well. It decides nothing: the answers
are compared outside of the sandbox, so whatever the code does to this process, it cannot earn a verdict.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
STEP = 0.02
CHUNK = 1 << 16


def say(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def waited(pid):
    """Seconds for which the process could have run, and had no processor. They are the machine's, not the code's."""
    try:
        with open("/proc/%d/schedstat" % pid) as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class Run:
    """One process of the policy's code, with a clock."""

    def __init__(self, command, stdin, job):
        self.job = job
        self.answers, given = os.pipe()
        self.child = subprocess.Popen(
            [*command, str(given)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(given,),
            cwd="/tmp",
        )
        os.close(given)
        self.out, self.err = self.child.stdout.fileno(), self.child.stderr.fileno()
        self.texts = {self.out: bytearray(), self.err: bytearray(), self.answers: bytearray()}
        self.open = set(self.texts)
        self.restart()

    def restart(self):
        self.began, self.before = time.monotonic(), waited(self.child.pid)

    def late(self):
        wall = time.monotonic() - self.began
        if wall > self.job["mostSeconds"]:
            return "starved"
        if wall > self.job["seconds"] and wall - (waited(self.child.pid) - self.before) > self.job["seconds"]:
            return "late"
        return None

    def read(self, timeout):
        """Reads what there is. Returns true if there was anything."""
        ready, _, _ = select.select(list(self.open), [], [], timeout) if self.open else ([], [], [])
        for stream in ready:
            data = os.read(stream, CHUNK)
            if not data:
                self.open.discard(stream)
                continue
            kept = self.texts[stream]
            kept += data
            if stream == self.err and len(kept) > 4096:
                del kept[:-2048]
        return bool(ready)

    def stop(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except OSError:
            pass
        self.child.wait()
        for stream in (self.child.stdout, self.child.stderr):
            stream.close()
        os.close(self.answers)

    def follow(self, progress):
        """Returns how it ended: ok, error, late, starved or flood. `progress` is called after each reading."""
        try:
            while True:
                over = self.child.poll() is not None
                found = self.read(0 if over else STEP)
                progress(self)
                if max(len(self.texts[self.out]), len(self.texts[self.answers])) > self.job["mostBytes"]:
                    return "flood"
                if over and not found:
                    return "ok" if self.child.returncode == 0 else "error"
                if not over:
                    late = self.late()
                    if late:
                        return late
        finally:
            self.stop()

    def ending(self, how):
        error = self.texts[self.err].decode("utf-8", "replace")[-400:]
        return {"ended": how, "code": self.child.returncode, "stderr": error}


def python(*arguments):
    return [sys.executable, "-I", "-B", "-X", "utf8", *arguments]


def run_stdin(job, first, last):
    for number in range(first, last):
        with tempfile.TemporaryFile() as stdin:
            stdin.write(job["inputs"][number].encode("utf-8", "surrogatepass"))
            stdin.seek(0)
            run = Run(python(HERE + "/solve_stdin.py", HERE + "/source.py"), stdin, job)
            how = run.follow(lambda _: None)
        text = run.texts[run.out].decode("utf-8", "replace") if how == "ok" else ""
        say(test=number, output=text, **run.ending(how))
        if how != "ok":
            return


def run_calls(job):
    sent = [0]

    def progress(run):
        lines = bytes(run.texts[run.answers]).split(b"\n")[:-1]
        for line in lines[sent[0] :]:
            say(answer=line.decode("utf-8", "replace"))
            if job["each"]:
                run.restart()
        sent[0] = len(lines)

    run = Run(python(HERE + "/candidate.py", HERE + "/sources.json", HERE + "/calls.json"), subprocess.DEVNULL, job)
    how = run.follow(progress)
    say(**run.ending(how))


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(sys.argv[1]) as file:
        job = json.load(file)
    if job["kind"] == "stdin":
        run_stdin(job, int(sys.argv[2]), int(sys.argv[3]))
    else:
        run_calls(job)
    say(done=True)


main()
