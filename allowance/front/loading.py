"""What a web process does before anything else is loaded. It imports nothing of the product."""

import multiprocessing
import signal


def end_if_told() -> None:
    """Let this process end at once if it is told to while it loads: it serves nobody yet.

    Granian listens to signals once all is loaded. Until then a child of it has what its parent does with them, misses
    them, and would be killed when the time to end is over.
    """
    if multiprocessing.parent_process() is not None:
        for ending in (signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, signal.SIG_DFL)
