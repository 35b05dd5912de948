"""Processes end with their launcher, however it dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tests.support import PATIENCE_S
from wirefault.core.lifeline import LIFELINE_VARIABLE, watch

CHILD = """
import os, threading
from wirefault.core.lifeline import watch
closed = threading.Event()
watch(os.environ, closed.set)
print("watching", flush=True)
print("closed" if closed.wait(60) else "still open", flush=True)
"""
LAUNCHER = f"""
import os, subprocess, sys
reading, writing = os.pipe()
environ = {{**os.environ, "{LIFELINE_VARIABLE}": str(reading)}}
subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=environ, pass_fds=[reading]).wait()
"""


@pytest.mark.slow
def test_a_child_is_told_when_its_launcher_is_killed():
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout.readline() == "watching\n"
        launcher.kill()
        # ends with the child, which has the same standard output
        assert launcher.stdout.read() == "closed\n"


def called_after(environ, act):
    closed = threading.Event()
    watch(environ, closed.set)
    act()
    return closed.wait(PATIENCE_S)


def test_it_is_called_once_the_other_end_is_closed_and_not_before():
    reading, writing = os.pipe()
    closed = threading.Event()
    watch({LIFELINE_VARIABLE: str(reading)}, closed.set)
    assert not closed.is_set()
    os.write(writing, b"whatever")
    os.close(writing)
    assert closed.wait(PATIENCE_S)
    os.close(reading)


def test_a_descriptor_that_is_not_open_counts_as_closed():
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    assert called_after({LIFELINE_VARIABLE: str(reading)}, lambda: None)


@pytest.mark.parametrize("environ", [{}, {LIFELINE_VARIABLE: ""}])
def test_without_a_lifeline_nothing_is_watched(environ):
    before = threading.active_count()
    watch(environ, pytest.fail)
    assert threading.active_count() == before
