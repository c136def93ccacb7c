"""The threads of a web process: the one that was busy last is called first, and a call waits until one is idle."""

import asyncio
import threading

from allowance.front.serving import Threads


def name() -> str:
    return threading.current_thread().name


def test_one_call_after_the_other_has_the_same_thread():
    async def call() -> set[str]:
        threads = Threads(3, "request")
        return {await threads.call(name) for _ in range(6)}

    assert len(asyncio.run(call())) == 1


def test_calls_at_once_have_threads_of_their_own():
    async def call() -> set[str]:
        threads, together = Threads(3, "request"), threading.Barrier(3, timeout=30)

        def meet() -> str:
            together.wait()
            return name()

        return {*await asyncio.gather(*(threads.call(meet) for _ in range(3)))}

    assert len(asyncio.run(call())) == 3


def test_a_call_waits_until_a_thread_is_idle():
    async def call() -> list[int]:
        threads, done, go_on = Threads(1, "request"), [], threading.Event()

        def wait(number: int) -> None:
            assert go_on.wait(30)
            done.append(number)

        calls = [asyncio.ensure_future(threads.call(wait, number)) for number in range(3)]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*calls)
        return done

    assert asyncio.run(call()) == [0, 1, 2]


def test_what_a_call_raises_is_raised_and_its_thread_is_called_again():
    async def call() -> str:
        threads = Threads(1, "request")
        try:
            await threads.call(int, "no number")
        except ValueError:
            return await threads.call(str, "a number")
        return ""

    assert asyncio.run(call()) == "a number"
