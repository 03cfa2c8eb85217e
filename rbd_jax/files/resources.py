"""Finds the files that a robot description refers to: meshes, by paths and by ROS packages."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from .._core.errors import ModelError


#: Prefixes of package names.
PACKAGES = ("package://", "model://")

#: Environment variables with the package folders of ROS and Gazebo.
ENVIRONMENT = ("ROS_PACKAGE_PATH", "GZ_SIM_RESOURCE_PATH")


class Resources:
    """Finds the files that a robot description refers to.

    `package://name/path` is searched in the given package folders, then in those of ROS_PACKAGE_PATH and
    GZ_SIM_RESOURCE_PATH, then in the folders above the file. In each of these, the package is a subfolder called `name`, or
    the folder itself if it has that name. Other paths are relative to the folder of the file.
    """

    def __init__(
        self, function: str, source: str | Path | None, package_dirs: str | Path | Iterable[str | Path]
    ):
        if isinstance(package_dirs, str | Path):
            package_dirs = [package_dirs]
        given = [Path(place) for place in package_dirs]
        for place in given:
            if not place.is_dir():
                raise ModelError(f"{function}: package_dirs has {str(place)!r}, which is not a directory")
        self.folder = Path.cwd() if source is None else Path(source).absolute().parent
        paths = (path for name in ENVIRONMENT for path in os.environ.get(name, "").split(os.pathsep))
        known = [Path(path) for path in paths if path]
        above = [] if source is None else [self.folder, *self.folder.parents]
        self._places = [*given, *known, *above]
        self._packages: dict[str, list[Path]] = {}

    def find(self, name: str) -> str:
        """Returns the path of a file by its name in the description, or the name itself if no such file exists."""
        for scheme in PACKAGES:
            if name.startswith(scheme):
                package, _, rest = name.removeprefix(scheme).lstrip("/").partition("/")
                found = (root / rest for root in self._roots(package))
                return next((str(path) for path in found if path.is_file()), name)
        path = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
        return str(self.folder / path) if "://" not in path else name

    def _roots(self, package: str) -> list[Path]:
        """Returns the folders of a package."""
        if package not in self._packages:
            below = [place / package for place in self._places if package]
            own = [place for place in self._places if place.name == package]
            self._packages[package] = [place for place in [*below, *own] if place.is_dir()]
        return self._packages[package]
