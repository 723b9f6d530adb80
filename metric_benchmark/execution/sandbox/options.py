# SPDX-License-Identifier: Apache-2.0
"""What a user can set for the sandbox, and which base images it knows."""

from __future__ import annotations

from pathlib import Path

from harbor.environments.options import EnvironmentOptions
from pydantic import Field

DEFAULT_BASE_IMAGES = {"debian:bookworm-slim": "host", "*": "refuse"}


class SandboxOptions(EnvironmentOptions):
    """Keyword arguments of the sandbox environment."""

    base_images: dict[str, str] = Field(
        default_factory=lambda: dict(DEFAULT_BASE_IMAGES),
        description="image name -> 'host' | absolute path of an unpacked root file system | 'refuse'; '*' is the rest",
    )
    disk_mb: int | None = Field(
        default=None,
        gt=0,
        description="room for all that is written (in memory); default: the task's storage_mb, at most half of memory",
    )
    max_processes: int = Field(default=1024, ge=301, description="bound on processes alive in a sandbox")
    max_output_mb: int = Field(default=64, gt=0, description="output kept of one command")
    build_network: bool = Field(
        default=False, description="give RUN steps the host's network though the task forbids the network"
    )

    def base_for(self, image: str) -> str:
        """The root file system for ``image``: ``host``, a path, or ``refuse``."""
        short = image.removeprefix("docker.io/").removeprefix("library/")
        for name in (image, short, "*"):
            if name in self.base_images:
                return self.base_images[name]
        return "refuse"


def base_problem(image: str, base: str) -> str | None:
    """Why ``base`` cannot stand for ``image``; None when it can."""
    if base == "host":
        return None
    if base == "refuse":
        return (
            f"base image {image!r} is not mapped to a local root file system: add it to base_images "
            "as 'host' or the path of an unpacked root file system, or use the docker environment"
        )
    if not Path(base).is_absolute() or not Path(base).is_dir():
        return f"base image {image!r} is mapped to {base!r}, which is not the absolute path of a folder"
    return None
