"""python -m unisono: runs the program `unisono` that was installed with the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def find_program() -> Path | None:
    """The program of this very installation, which may have been moved or put anywhere."""
    candidates = [folder / "bin" / "unisono" for folder in PACKAGE.parents]
    candidates.append(Path(sys.executable).parent / "unisono")
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def main() -> None:
    program = find_program()
    if program is None:
        sys.exit(f"unisono: the program is not beside {PACKAGE}. DO: install it again. [CONFIG]")
    known = os.environ.get("LD_LIBRARY_PATH")
    libraries = str(PACKAGE / "lib")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{libraries}:{known}" if known else libraries,
    }
    os.execve(program, [str(program), *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
