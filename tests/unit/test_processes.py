"""The demo's supervisor: one Ctrl-C ends everything, and nothing outlives it."""

from __future__ import annotations

import os
import pty
import queue
import select
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from example_project.processes import Program, _Run

from ..helpers import ROOT, wait_until

# Two programs: one that has a child of its own, one that ends at once and is started again.
STEADY = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("steady is up")
with open(sys.argv[1] + "/pids", "a") as file:
    file.write(f"{os.getpid()} {child.pid} ")
signal.pause()
"""
SCRIPT = f"""
import sys
from example_project.processes import Program, Supervisor

programs = [Program("steady", [sys.executable, "-c", {STEADY!r}, sys.argv[1]])]
if len(sys.argv) > 2:
    programs.append(Program("broken", [sys.executable, "-c", "print('no'); raise SystemExit(3)"]))
sys.exit(0 if Supervisor(programs, print).run() else 1)
"""


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", SCRIPT, str(folder), *more]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def pids(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def read(terminal: int) -> bytes:
    assert select.select([terminal], [], [], 30)[0], "nothing to read for 30 s"
    return os.read(terminal, 4096)


def test_one_signal_stops_everything_cleanly(tmp_path: Path) -> None:
    demo = start(tmp_path)
    wait_until(lambda: len(pids(tmp_path)) == 2, what="the program is up")
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=20)
    assert demo.returncode == 0, output
    assert "steady | steady is up" in output
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_nothing_outlives_a_killed_demo(tmp_path: Path) -> None:
    demo = start(tmp_path)
    wait_until(lambda: len(pids(tmp_path)) == 2, what="the program is up")
    demo.kill()
    demo.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids(tmp_path)), what="its programs are gone")


def test_the_guard_knows_of_a_program_before_it_does_anything() -> None:
    """Else a demo that is killed at that moment leaves it behind."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as told, os.fdopen(write_end, "w") as guard:
        program = Program("early", [sys.executable, "-c", "import signal; print('here'); signal.pause()"])
        said: queue.SimpleQueue[str] = queue.SimpleQueue()
        run = _Run(program, lambda name, line: said.put(line), guard)
        try:
            assert said.get(timeout=30) == "here"
            assert told.readline() == f"+{run.process.pid}\n"
            guard.close()
            assert told.read() == "", "the program holds the pipe: its guard would never see our end"
        finally:
            run.clear()


def test_a_dead_program_is_started_again(tmp_path: Path) -> None:
    demo = start(tmp_path)
    wait_until(lambda: len(pids(tmp_path)) == 2, what="the program is up")
    os.kill(pids(tmp_path)[0], signal.SIGKILL)
    wait_until(lambda: len(pids(tmp_path)) == 4, what="it is started again")
    assert not any(alive(pid) for pid in pids(tmp_path)[:2])
    demo.terminate()
    output, _ = demo.communicate(timeout=20)
    assert demo.returncode == 0
    assert "steady ended with -9, starting it again" in output


def test_it_gives_up_on_a_program_that_keeps_dying(tmp_path: Path) -> None:
    demo = start(tmp_path, "broken")
    output, _ = demo.communicate(timeout=30)
    assert demo.returncode == 1
    assert output.count("broken | no") == 3
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_ctrl_c_in_a_terminal_lets_make_end_with_0(tmp_path: Path) -> None:
    makefile = tmp_path / "Makefile"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    makefile.write_text(f"demo:\n\t@{sys.executable} -u {script} {tmp_path}\n")
    pid, terminal = pty.fork()
    if pid == 0:  # the child, on a terminal of its own; bash -i puts make into the foreground as a person's shell does
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = str(ROOT)
        os.execvp("bash", ["bash", "--norc", "-ic", f"make -f {makefile} demo; echo make said $?"])  # noqa: S606
    shown = b""
    try:
        while b"steady is up" not in shown:
            shown += read(terminal)
        wait_until(lambda: len(pids(tmp_path)) == 2, what="the program is up")
        os.write(terminal, b"\x03")
        while True:
            shown += read(terminal)
    except OSError:  # what Linux says when the terminal's other end has closed: bash has ended
        os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert "make said 0" in shown.decode(), shown.decode()
    assert not any(alive(pid) for pid in pids(tmp_path))
