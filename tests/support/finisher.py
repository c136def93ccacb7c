"""A worker that ends payments which were held: `python -m tests.support.finisher PAYMENT...`.

Says "ready", waits for a line, then tries each payment in turn and prints the ids of the decisions that it has made.
"""

import json
import os
import sys

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allowance.settings")
    django.setup()
    from payments.environment import payment_environment  # noqa: PLC0415 - once Django is set up
    from payments.holding.finishing import finish_hold  # noqa: PLC0415

    environment = payment_environment()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    made = [finish_hold(payment_id, environment) for payment_id in sys.argv[1:]]
    sys.stdout.write(json.dumps([entry.id for entry in made if entry is not None]) + "\n")


if __name__ == "__main__":
    main()
