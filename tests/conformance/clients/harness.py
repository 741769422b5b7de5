"""Processes with time limits, a Mininet that reads commands, and the table of results."""

import os
import select
import shutil
import signal
import subprocess
import time


class Failure(Exception):
    """A client did not get what its documentation promises."""


class Skipped(Exception):
    """A case that cannot run here, and why."""


def expect(condition, message):
    if not condition:
        raise Failure(message)


def until(condition, seconds, what):
    """Waits until `condition()` is true and returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def last_lines(text, count=6):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:])


def end_group(process):
    """Ends a process and everything that it started."""
    for sig, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        try:
            os.killpg(process.pid, sig)
        except ProcessLookupError:
            pass
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue


class Lab:
    """Where clients find p4jet under the names that they use, and where they work."""

    def __init__(self, p4jet, work, python):
        self.p4jet = os.path.abspath(p4jet)
        self.work = os.path.abspath(work)
        self.log = None
        bin_dir = os.path.join(self.work, "bin")
        shutil.rmtree(bin_dir, ignore_errors=True)
        os.makedirs(bin_dir)
        for name in ("p4c", "p4c-bm2-ss", "simple_switch", "simple_switch_grpc", "simple_switch_CLI"):
            os.symlink(self.p4jet, os.path.join(bin_dir, name))
        # The real one would replace PATH by its own. The user is root already.
        sudo = os.path.join(bin_dir, "sudo")
        with open(sudo, "w") as file:
            file.write('#!/bin/sh\n[ "$1" = -E ] && shift\nexec env "$@"\n')
        os.chmod(sudo, 0o755)
        beside = os.path.dirname(os.path.abspath(__file__))
        shutil.copy(os.path.join(beside, "telnet.py"), os.path.join(bin_dir, "telnet"))
        # Target of most of finsy's examples.
        shutil.copy(os.path.join(beside, "stratum_bmv2.sh"), os.path.join(bin_dir, "stratum_bmv2"))
        python_dir = os.path.dirname(os.path.abspath(python))
        self.env = dict(os.environ)
        self.env["PATH"] = f"{bin_dir}:{python_dir}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.env["PYTHONUNBUFFERED"] = "1"
        self.env["TERM"] = "dumb"
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "PYTHONPATH"):
            self.env.pop(name, None)

    def copy(self, source, name):
        """Copies a checkout, or a part of one, into the work directory: clients write beside their files."""
        target = os.path.join(self.work, name)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True)
        return target

    def note(self, text):
        if self.log:
            self.log.write(text)
            self.log.flush()

    def run(self, command, cwd, seconds=60, env=None, check=True):
        """Runs a command and returns its status and output."""
        self.note(f"\n$ {' '.join(command)}\n")
        process = subprocess.Popen(
            command, cwd=cwd, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace")
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            end_group(process)
            output = process.stdout.read()
            self.note(output)
            raise Failure(f"`{' '.join(command)}` took over {seconds} s: {last_lines(output)}")
        self.note(output)
        if check and process.returncode != 0:
            raise Failure(f"`{' '.join(command)}` ended with {process.returncode}: {last_lines(output)}")
        return process.returncode, output

    def start(self, command, cwd, log_name, env=None):
        """Starts a process in the background and returns it with the path of its output."""
        path = os.path.join(cwd, log_name)
        self.note(f"\n$ {' '.join(command)} > {path} &\n")
        with open(path, "w") as file:
            process = subprocess.Popen(
                command, cwd=cwd, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True)
        return process, path

    def clean(self):
        """Removes what a Mininet or a switch left behind. All processes of this PID namespace are ours."""
        subprocess.run(["mn", "-c"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        subprocess.run(["pkill", "-9", "simple_switch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Mininet:
    """A command that ends in Mininet's prompt, such as `make run`. Each command is sent when the prompt is there,
    because Mininet hands what comes earlier to the program that runs."""

    PROMPT = b"mininet> "

    def __init__(self, lab, command, cwd, seconds=90):
        self.lab = lab
        self.cwd = cwd
        lab.note(f"\n$ {' '.join(command)}\n")
        self.process = subprocess.Popen(
            command, cwd=cwd, env=lab.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, bufsize=0)
        try:
            self.greeting = self._answer(" ".join(command), seconds)
        except Failure:
            self.close()
            raise

    def _answer(self, command, seconds):
        end = time.monotonic() + seconds
        output = b""
        while not output.endswith(self.PROMPT):
            left = end - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(left, 0))
            if not ready:
                raise Failure(f"no prompt {seconds} s after `{command}`: {last_lines(output.decode(errors='replace'))}")
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise Failure(f"Mininet ended at `{command}`: {last_lines(output.decode(errors='replace'))}")
            self.lab.note(part.decode(errors="replace"))
            output += part
        return output[: -len(self.PROMPT)].decode(errors="replace")

    def do(self, command, seconds=30):
        """Types a command and returns what Mininet prints before the next prompt."""
        self.lab.note(command + "\n")
        self.process.stdin.write(command.encode() + b"\n")
        return self._answer(command, seconds)

    def receive(self, host, command, log_name, ready="sniffing on"):
        """Starts a receiver on a host. Returns a function that reads its output, and fails if the receiver did."""
        path = os.path.join(self.cwd, log_name)
        self.do(f"{host} {command} > {log_name} 2>&1 &")
        until(lambda: ready in read(path), 20, f"`{ready}` from `{command}` on {host}: {last_lines(read(path))}")
        time.sleep(1.5)  # The line comes before the socket is open.

        def output():
            text = read(path)
            expect("Traceback" not in text, f"`{command}` on {host} failed: {last_lines(text, 2)}")
            return text

        output()
        return output

    def close(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.write(b"exit\n")
                self.process.wait(20)
            except (OSError, subprocess.TimeoutExpired):
                pass
        end_group(self.process)
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Report:
    """Runs cases and prints what became of them."""

    def __init__(self, lab, explained, words):
        self.lab = lab
        self.explained = explained
        self.words = words
        self.rows = []

    def case(self, name, function):
        if self.words and not any(word in name for word in self.words):
            return
        logs = os.path.join(self.lab.work, "logs")
        os.makedirs(logs, exist_ok=True)
        started = time.monotonic()
        with open(os.path.join(logs, name.replace("/", "-").replace(" ", "_") + ".log"), "w") as self.lab.log:
            try:
                result, reason = "pass", function() or ""
            except Failure as failure:
                result, reason = "FAIL", str(failure)
            except Skipped as skipped:
                result, reason = "skipped", str(skipped)
            except Exception as error:  # One broken case does not end the others.
                result, reason = "FAIL", f"{type(error).__name__}: {error}"
            self.lab.note(f"\n{result} {reason}\n")
        self.lab.log = None
        self.lab.clean()
        part, why = self.explained.get(name, ("", ""))
        if result == "FAIL" and why and part in reason:
            result, reason = "explained", why
        elif result == "pass" and why and not why.startswith("sometimes"):
            result, reason = "FAIL", "passes now; drop it from the explained failures"
        self.rows.append((name, result, reason))
        print(f"{result:9} {time.monotonic() - started:5.1f} s  {name:42} {reason}", flush=True)

    def finish(self):
        """Prints the sums and returns the exit status."""
        counts = {}
        for _, result, _ in self.rows:
            counts[result] = counts.get(result, 0) + 1
        print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())) or "nothing ran")
        return 1 if counts.get("FAIL") or not self.rows else 0
