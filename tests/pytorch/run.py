"""Runs PyTorch's own tests of torch.distributed, and says how many pass.

    python -m tests.pytorch.run [--backend NAME] [--ranks N] [--only CASE …] [--json FILE]

Ends with 0 when everything passes but what cannot (cases.EXPECTED), and nothing was left out
(cases.RUN_BY_RANKS).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path


def main() -> int:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--backend", default="unisono", help="unisono, or gloo to compare")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help="only these cases")
    parser.add_argument("--json", type=Path, help="where the counts go, too")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
    from tests.pytorch.cases import EXPECTED, RUN_BY_RANKS, cases

    loader = unittest.TestLoader()
    with tempfile.TemporaryDirectory() as folder:
        kind = cases(given.backend, given.ranks, folder)
        known = loader.getTestCaseNames(kind)
        if unknown := set(given.only) - set(known):
            parser.error(f"PyTorch has no such case: {', '.join(sorted(unknown))}")
        suite = unittest.TestSuite(kind(name) for name in given.only or known)
        begin = time.monotonic()
        result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    failed = {case.id().rpartition(".")[2] for case, _ in [*result.failures, *result.errors]}
    expected = set(EXPECTED) if given.backend == "unisono" else set()
    ran = result.testsRun - len(result.skipped)
    counts = {
        "backend": given.backend,
        "ranks": given.ranks,
        "debug": os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF"),
        "cases": result.testsRun,
        "ran": ran,
        "passed": ran - len(failed),
        "failed": sorted(failed),
        "seconds": round(time.monotonic() - begin),
    }
    if given.json:
        given.json.write_text(json.dumps(counts, indent=1) + "\n")
    print(f"{given.backend}, {given.ranks} ranks: {ran} ran, {counts['passed']} passed")
    for name in sorted(failed):
        print(f"  {name}: {EXPECTED[name] if name in expected else 'FAILED'}")
    wanted = len(given.only) or RUN_BY_RANKS.get(given.ranks, 1)
    if given.backend == "unisono" and ran < wanted:
        print(f"  {wanted - ran} cases did not run that should")
        return 1
    return 0 if ran > 0 and failed <= expected else 1


if __name__ == "__main__":
    sys.exit(main())
