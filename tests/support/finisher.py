"""A worker that ends payments which were held: `python -m tests.support.finisher [PAYMENT...]`.

Says "ready", waits for a line, then tries each payment in turn and prints the ids of the decisions that it has made.
Without payments it ends whatever can be ended, again and again, until its standard input is closed.
"""

import json
import os
import sys
import threading
from collections.abc import Callable

import django

_PAUSE_S = 0.05


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allowance.settings")
    django.setup()
    from foundation.groups import in_each_group  # noqa: PLC0415 - once Django is set up
    from payments.environment import payment_environment  # noqa: PLC0415
    from payments.holding.finishing import finish_hold, finish_holds  # noqa: PLC0415

    environment = payment_environment()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if len(sys.argv) == 1:
        _repeat(lambda: in_each_group(lambda: finish_holds(environment)))
        return
    sys.stdin.readline()
    made = [finish_hold(payment_id, environment) for payment_id in sys.argv[1:]]
    sys.stdout.write(json.dumps([entry.id for entry in made if entry is not None]) + "\n")


def _repeat(finish: Callable[[], object]) -> None:
    is_over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=listen).start()
    while not is_over.wait(_PAUSE_S):
        finish()


if __name__ == "__main__":
    main()
