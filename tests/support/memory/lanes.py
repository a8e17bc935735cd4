"""Lanes of which one runs at a time: whose turn it is, a seed decides at every step."""

import random
import threading

from integration.delivery.lanes import Turn
from integration.delivery.steps import Observer, Step


class Ended(BaseException):
    """The process has died in another lane."""


class Lane:
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
        """Called in the lane: let others run."""
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


class MemoryLanes:
    """See lanes.Lanes. The same seed gives the same story, whatever the machine does."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._back = threading.Semaphore(0)
        self._under_way: list[Lane] = []
        self._has_died = False

    def start(self, turn: Turn) -> None:
        self._under_way.append(Lane(turn, self._back))

    def finished(self) -> Turn:
        while True:
            lane = self._random.choice(self._under_way)
            lane.step()
            if lane.is_over:
                self._under_way.remove(lane)
                failure = lane.turn.failure
                self._has_died = failure is not None and not isinstance(failure, Exception)
                lane.thread.join()
                return lane.turn

    def wait(self) -> None:
        for lane in self._under_way:
            # With the process all of its lanes end where they are.
            lane.is_dead = lane.is_dead or self._has_died
        while self._under_way:
            self.finished()

    def hand_over(self) -> bool:
        """Let one of the lanes go on, perhaps another; False where this is none of them."""
        mine = threading.current_thread()
        lane = next((lane for lane in self._under_way if lane.thread is mine), None)
        if lane is not None:
            lane.hand_back()
        return lane is not None

    def others_first(self) -> None:
        """Called where a row is locked."""
        assert self.hand_over(), "a row is locked, and there are no other lanes"


class Handing(Observer):
    """An observer that lets the lanes change after each step."""

    def __init__(self, observer: Observer, lanes: MemoryLanes) -> None:
        self.observer = observer
        self.lanes = lanes

    def step(self, step: Step) -> None:
        self.observer.step(step)
        self.lanes.hand_over()
