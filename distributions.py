"""Let Python find distributions of this checkout, without building them: `python distributions.py TARGET FOLDER ...`.

TARGET is a folder that Python looks for packages in: that of an environment, or one of PYTHONPATH. Of each FOLDER it
gets what an installation would write of its pyproject.toml (its name, version and entry points), and in an environment
the way to its packages, which is relative: the checkout may be moved. Nothing is downloaded and nothing is run, so that
no index and no build tool comes near the keys of whoever calls this.
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path


def announce(target: Path, folder: Path) -> None:
    """Write the metadata of a folder with a pyproject.toml, in the place of what was announced before."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    for old in target.glob(f"{name}-*.dist-info"):
        shutil.rmtree(old)
    info = target / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    groups = project.get("entry-points", {}).items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{one} = {points[one]}" for one in points))]
    (info / "entry_points.txt").write_text("".join(f"{line}\n" for line in lines))
    # A folder that is a package itself is imported from the folder around it.
    packages = folder.parent if (folder / "__init__.py").exists() else folder
    (target / f"{name}.pth").write_text(f"{os.path.relpath(packages.absolute(), target.absolute())}\n")


if __name__ == "__main__":
    if len(sys.argv) < 3 or not all(Path(one, "pyproject.toml").exists() for one in sys.argv[2:]):  # noqa: PLR2004
        sys.exit("usage: python distributions.py TARGET FOLDER ...   (each FOLDER has a pyproject.toml)")
    for one in sys.argv[2:]:
        announce(Path(sys.argv[1]), Path(one))
