"""How long the fuzzing goes on, and from which seed: `make fuzz` says so in the environment."""

import os

# In `make test`, which must end in the same way every time.
SEED = int(os.environ.get("FUZZ_SEED", "12"))
# Longer than the short run of `make test`, by so much for each half of it: the document's, and the raw one.
EXTRA_MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
AGAIN = f'make fuzz ARGS="--seed {SEED} --minutes {EXTRA_MINUTES:g}"'
