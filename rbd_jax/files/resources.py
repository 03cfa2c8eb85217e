"""Where the files are that a robot's file names: meshes, by paths and by packages of ROS."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from .._core.errors import ModelError


#: What is in front of the name of a package.
PACKAGES = ("package://", "model://")

#: Where ROS and Gazebo are told the folders of packages.
ENVIRONMENT = ("ROS_PACKAGE_PATH", "GZ_SIM_RESOURCE_PATH")


class Resources:
    """Finds the files that a file names.

    `package://name/path` is looked for in the packages' folders that are given, in those of ROS_PACKAGE_PATH and
    GZ_SIM_RESOURCE_PATH, and in the folders above the file: below a folder that has one called `name`, or in one that is called
    so itself. Other paths are from the folder of the file.
    """

    def __init__(
        self, function: str, source: str | Path | None, package_dirs: str | Path | Iterable[str | Path]
    ):
        if isinstance(package_dirs, str | Path):
            package_dirs = [package_dirs]
        given = [Path(place) for place in package_dirs]
        for place in given:
            if not place.is_dir():
                raise ModelError(f"{function}: package_dirs has {str(place)!r}, which is no directory")
        self.folder = Path.cwd() if source is None else Path(source).absolute().parent
        paths = (path for name in ENVIRONMENT for path in os.environ.get(name, "").split(os.pathsep))
        known = [Path(path) for path in paths if path]
        above = [] if source is None else [self.folder, *self.folder.parents]
        self._places = [*given, *known, *above]
        self._packages: dict[str, list[Path]] = {}

    def find(self, name: str) -> str:
        """The path of a file by the name that it is given; the name itself where there is none."""
        for scheme in PACKAGES:
            if name.startswith(scheme):
                package, _, rest = name.removeprefix(scheme).lstrip("/").partition("/")
                found = (root / rest for root in self._roots(package))
                return next((str(path) for path in found if path.is_file()), name)
        path = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
        return str(self.folder / path) if "://" not in path else name

    def _roots(self, package: str) -> list[Path]:
        """The folders of a package."""
        if package not in self._packages:
            below = [place / package for place in self._places if package]
            own = [place for place in self._places if place.name == package]
            self._packages[package] = [place for place in [*below, *own] if place.is_dir()]
        return self._packages[package]
