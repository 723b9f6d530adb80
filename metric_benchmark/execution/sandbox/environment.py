# SPDX-License-Identifier: Apache-2.0
"""The sandbox as a Harbor environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, override

from harbor.environments.base import BaseEnvironment, ExecResult, OutputCallback, SandboxBuildFailedError
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.snowflake.dockerfile_replay import ReplayPlan
from harbor.models.task.config import NetworkMode, NetworkPolicy

from metric_benchmark.execution.sandbox.build import replay
from metric_benchmark.execution.sandbox.checking import check_sandbox
from metric_benchmark.execution.sandbox.options import SandboxOptions
from metric_benchmark.execution.sandbox.process import (
    Network,
    SandboxError,
    SandboxProcess,
    SandboxSpec,
)
from metric_benchmark.execution.sandbox.tasks import (
    environment_problems,
    is_root,
    only_root,
    plan_environment,
    user_problem,
)
from metric_benchmark.execution.sandbox.transfer import download, upload

_DEFAULT_DISK_MB = 1024


class LocalSandboxEnvironment(BaseEnvironment):
    """Runs a trial in namespaces of this machine, without a daemon and without an image.

    Refuses in :meth:`start` what it cannot do: an exception any earlier would cancel the other trials of the job.
    """

    options_model = SandboxOptions
    options: SandboxOptions  # pyright: ignore[reportIncompatibleVariableOverride] - Harbor narrows it the same way

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._process: SandboxProcess | None = None
        self._plan = ReplayPlan(base_image="")
        self._networks: Network = "none"
        super().__init__(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType] - Harbor leaves them open

    @staticmethod
    @override
    def type() -> str:
        return "local-sandbox"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        # Not `mounted`: what trials write reaches the host only by the copies of transfer.py, which bound its size and
        # follow no link.
        return EnvironmentCapabilities(disable_internet=True, dynamic_network_policy=True)

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        # No limit of CPU or memory is enforced, so a job that asks for one is refused by Harbor.
        return EnvironmentResourceCapabilities(fractional_cpus=True)

    @classmethod
    @override
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        super().preflight(kwargs)
        if reasons := check_sandbox():
            raise SystemExit("the local sandbox does not work here: " + "; ".join(reasons))

    @override
    def _validate_definition(self) -> None:
        """Nothing: refused in :meth:`start`, with every other reason."""

    @override
    def _validate_gpu_support(self) -> None:
        """Nothing: refused in :meth:`start`."""

    @override
    def _validate_tpu_support(self) -> None:
        """Nothing: refused in :meth:`start`."""

    @override
    def _validate_windows_support(self) -> None:
        """Nothing: refused in :meth:`start`."""

    @override
    async def start(self, force_build: bool) -> None:
        """Build the environment.

        Raises:
            SandboxBuildFailedError: this task cannot run in the sandbox; the message has every reason.
        """
        problems = environment_problems(
            self.environment_dir, self.task_env_config, self.options, force_build=force_build
        )
        if self._host_mounts:
            problems.append("mounts of host folders are not supported")
        if problems:
            raise SandboxBuildFailedError("the local sandbox cannot run this task: " + "; ".join(problems))
        self._plan = plan_environment(self.environment_dir, self.task_env_config.docker_image, force_build=force_build)
        self._networks = self._needed_networks()
        try:
            self._process = await SandboxProcess.start(
                SandboxSpec(
                    base=self.options.base_for(self._plan.base_image),
                    disk_mb=self._disk_mb(),
                    network=self._networks,
                    max_processes=self.options.max_processes,
                    folders=tuple(self._mount_targets(writable_only=True)),
                )
            )
        except SandboxError as error:
            raise SandboxBuildFailedError(f"the local sandbox cannot start: {error}") from error
        try:
            network = "host" if self.options.build_network else self._network()
            await replay(self._process, self._plan, self.environment_dir, network)
            await self._upload_environment_dir_after_start()
        except BaseException:
            await self.stop(delete=True)
            raise

    def _needed_networks(self) -> Network:
        modes = {policy.network_mode for policy in (self._network_policy, *self._phase_network_policies)}
        if self.options.build_network:
            modes.add(NetworkMode.PUBLIC)
        if modes == {NetworkMode.NO_NETWORK}:
            return "none"
        return "host" if modes == {NetworkMode.PUBLIC} else "both"

    def _network(self) -> Literal["host", "none"]:
        return "none" if self._network_disabled else "host"

    def _disk_mb(self) -> int:
        if self.options.disk_mb is not None:
            return self.options.disk_mb
        wanted = self._effective_storage_mb or _DEFAULT_DISK_MB
        bound = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 >> 20
        if wanted > bound:
            self.logger.debug(f"the task asks for {wanted} MB of storage; the sandbox gives half of memory, {bound} MB")
        return min(wanted, bound)

    @override
    async def stop(self, delete: bool) -> None:
        """End every process and let go of everything written; ``delete`` makes no difference."""
        if self._process is not None:
            process, self._process = self._process, None
            await process.stop()

    @override
    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        wanted = "none" if network_policy.network_mode == NetworkMode.NO_NETWORK else "host"
        if self._networks not in (wanted, "both"):
            raise ValueError(f"the sandbox was started with network {self._networks!r} and cannot change to {wanted!r}")

    def _running(self) -> SandboxProcess:
        if self._process is None:
            raise RuntimeError("the sandbox is not running")
        return self._process

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run ``command`` with bash; standard error comes with standard output, as with Docker.

        Raises:
            RuntimeError: it timed out (everything it started is killed), or the sandbox is gone.
        """
        wanted = self._resolve_user(user)
        wanted = self._plan.user if wanted is None else wanted
        if not is_root(wanted) and only_root():
            raise SandboxBuildFailedError("the local sandbox cannot run this task: " + user_problem(wanted))
        lines = self._line_relay()
        try:
            ended = await self._running().run(
                ["/bin/bash", "-c", command],
                cwd=cwd or self.task_env_config.workdir or self._plan.workdir,
                env={**self._plan.env, **(self._merge_env(env) or {})},
                user=None if wanted is None else str(wanted),
                network=self._network(),
                timeout=timeout_sec or None,
                on_output=lines,
                max_output=self.options.max_output_mb << 20,
            )
        except TimeoutError:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds") from None
        except SandboxError as error:
            raise RuntimeError(f"the local sandbox failed: {error}") from error
        if lines is not None:
            await lines(b"", last=True)
        return ExecResult(stdout=ended.output.decode(errors="replace") or None, return_code=ended.status)

    def _line_relay(self) -> _LineRelay | None:
        callback = self._output_callback()
        return None if callback is None else _LineRelay(callback)

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await upload(self._running(), Path(source_path), str(target_path), folder=False)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await upload(self._running(), Path(source_dir), str(target_dir), folder=True)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self._download(str(source_path), Path(target_path), folder=False)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self._download(str(source_dir), Path(target_dir), folder=True)

    async def _download(self, source: str, target: Path, *, folder: bool) -> None:
        skipped = await download(self._running(), source, target, folder=folder, max_bytes=2 * self._disk_mb() << 20)
        if skipped:
            names = ", ".join(skipped).encode(errors="replace").decode()  # a name may be no text
            self.logger.warning(f"left out of the download of {source}: {names}")


class _LineRelay:
    """Hands output on in whole lines, as Harbor's Docker environment does."""

    def __init__(self, callback: OutputCallback) -> None:
        self._callback = callback
        self._rest = b""

    async def __call__(self, chunk: bytes, *, last: bool = False) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            await self._callback(line.decode(errors="replace") + "\n", "stdout")
        if last and self._rest:
            await self._callback(self._rest.decode(errors="replace"), "stdout")
