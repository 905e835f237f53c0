"""Asks an interpreter that has aiconfigurator, which may fall silent or end, and remembers what it said in a file."""

from __future__ import annotations

import json
import select
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from bench.aic.questions import Question

WORKER = Path(__file__).with_name("worker.py")
START_SECONDS = 120.0
Answer = dict[str, Any]  # as the worker writes it; `refused` says why there is none


class NotInstalledError(RuntimeError):
    """The interpreter does not run, or has no aiconfigurator."""


class Memory:
    """Answers by question, one JSON object a line: what was there when a run was interrupted is not asked again.

    Those of another version or another machine do not count. Without a file, nothing outlives the process.
    """

    def __init__(self, file: Path | None, origin: str) -> None:
        """Read what there is; a last line that was cut off is no answer."""
        self._file, self._origin = file, origin
        self._known: dict[str, Answer] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else ():
            self._recall(line)

    def _recall(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        if said["origin"] == self._origin:
            self._known[said["question"]] = said["answer"]

    def get(self, question: Question) -> Answer | None:
        """What was said before."""
        return self._known.get(question.text)

    def keep(self, question: Question, answer: Answer) -> None:
        """Remember it at once."""
        self._known[question.text] = answer
        if self._file is None:
            return
        said = json.dumps({"origin": self._origin, "question": question.text, "answer": answer})
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"\n{said}\n")  # a line of its own, even after one that was cut off


class Interpreter:
    """One process at a time that answers one question after the other."""

    def __init__(self, python: Path) -> None:
        """Start it; raises `NotInstalledError`."""
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self.version = str(self._started()["version"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, question: Question, limit_seconds: float) -> Answer:
        """What it says; raises `SilentError` where that is nothing within the limit, or the process ends."""
        if self._process is None:
            self._started()
        self._write(question.text)
        return self._read(limit_seconds)

    def stop(self) -> None:
        """End the process; the next question starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> Answer:
        command = [str(self._python), "-I", str(WORKER)]  # -I: nothing of our environment is for it
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
            return self._read(START_SECONDS)
        except (OSError, SilentError) as error:
            message = f"{self._python} does not run aiconfigurator: {error} (what it said is above)"
            raise NotInstalledError(message) from error

    def _write(self, text: str) -> None:
        process = self._running()
        try:
            print(text, file=process.stdin, flush=True)
        except BrokenPipeError as error:
            raise self._silent("the process had ended") from error

    def _read(self, limit_seconds: float) -> Answer:
        """One line: there is never more than one answer in the pipe."""
        answers = self._running().stdout
        assert answers is not None, "it is started with a pipe"
        ready, _, _ = select.select([answers], [], [], limit_seconds)
        line = answers.readline() if ready else ""
        if not line:
            raise self._silent("the process ended" if ready else f"no answer within {limit_seconds:g} seconds")
        answer: Answer = json.loads(line)
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise NotInstalledError(f"{self._python} was stopped")
        return self._process

    def _silent(self, why: str) -> SilentError:
        self.stop()
        return SilentError(why)


class SilentError(RuntimeError):
    """No answer to this question; the next one may have one."""


def said(interpreter: Interpreter, memory: Memory, question: Question, limit_seconds: float) -> Answer:
    """The answer, from memory if it is there. Silence is not remembered: a busy machine is not the question's fault."""
    known = memory.get(question)
    if known is not None:
        return known
    try:
        answer = interpreter.ask(question, limit_seconds)
    except SilentError as error:
        return {"refused": f"SilentError: {error}"}
    memory.keep(question, answer)
    return answer
