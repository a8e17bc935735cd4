"""Threads of which one runs at a time: whose turn it is, a seed decides at every step."""

import random
import threading

from integration.delivery.steps import Observer, Step
from integration.delivery.threads import Turn


class Ended(BaseException):
    """The process has died in another thread."""


class Thread:
    """A thread that runs only while it holds the baton."""

    def __init__(self, turn: Turn, back: threading.Semaphore) -> None:
        self.turn = turn
        self.is_over = self.is_dead = False
        self.back = back
        self.go = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def step(self) -> None:
        """Let it run until it hands the baton back."""
        self.go.release()
        self.back.acquire()

    def hand_back(self) -> None:
        """Called in the thread: let others run."""
        self.back.release()
        self.go.acquire()
        if self.is_dead:
            raise Ended

    def _run(self) -> None:
        self.go.acquire()
        if not self.is_dead:
            self.turn.take()
        self.is_over = True
        self.back.release()


class MemoryThreads:
    """See threads.Threads. The same seed gives the same story, whatever the machine does."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._back = threading.Semaphore(0)
        self._under_way: list[Thread] = []
        self._has_died = False

    def start(self, turn: Turn) -> None:
        self._under_way.append(Thread(turn, self._back))

    def finished(self) -> Turn:
        while True:
            thread = self._random.choice(self._under_way)
            thread.step()
            if thread.is_over:
                self._under_way.remove(thread)
                failure = thread.turn.failure
                self._has_died = failure is not None and not isinstance(failure, Exception)
                thread.thread.join()
                return thread.turn

    def wait(self) -> None:
        for thread in self._under_way:
            # With the process all of its threads end where they are.
            thread.is_dead = thread.is_dead or self._has_died
        while self._under_way:
            self.finished()

    def hand_over(self) -> bool:
        """Let one of the threads go on, perhaps another; False where this is none of them."""
        mine = threading.current_thread()
        thread = next((thread for thread in self._under_way if thread.thread is mine), None)
        if thread is not None:
            thread.hand_back()
        return thread is not None

    def others_first(self) -> None:
        """Called where a row is locked."""
        assert self.hand_over(), "a row is locked, and there are no other threads"


class Handing(Observer):
    """An observer that lets the threads change after each step."""

    def __init__(self, observer: Observer, threads: MemoryThreads) -> None:
        self.observer = observer
        self.threads = threads

    def step(self, step: Step) -> None:
        self.observer.step(step)
        self.threads.hand_over()
