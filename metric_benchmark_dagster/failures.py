# SPDX-License-Identifier: Apache-2.0
"""Turns the library's errors into Dagster failures: a clear message, and a retry only where one can help."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from metric_benchmark.errors import ExecutionError, LockedError, MetricBenchmarkError
from metric_benchmark.execution.runner import VariantRun


@dataclass(frozen=True)
class Retries:
    """How often and after how long a failure that may pass by itself is retried."""

    max_retries: int
    delay_s: float


class InfrastructureFailure(ExecutionError):
    """Trials without a verdict because of the machinery around the agent; it may work again in a while."""


#: Errors that may pass by themselves: the infrastructure failed, or another run holds the evidence for a while.
TRANSIENT = (InfrastructureFailure, LockedError)


CANCELLED = "this run was cancelled while it was being started; no trial was run"


@contextmanager
def as_failures(retries: Retries) -> Generator[None]:
    """Raises every error of the body as a `dg.Failure`, after retries where one can help.

    Retries are requested here and not by a `dg.RetryPolicy`: Dagster applies a policy to a run that someone terminates,
    too, and would start the trials again that were to be stopped. Interrupts pass through untouched.
    """
    try:
        yield
    except (dg.Failure, dg.RetryRequested):
        raise
    except MetricBenchmarkError as error:
        failure = dg.Failure(
            description=str(error),
            metadata={
                "error": type(error).__name__,
                "exit_status": error.exit_status,
                "problems": dg.MetadataValue.md("\n".join(f"- {problem}" for problem in error.problems)),
            },
            allow_retries=False,
        )
        if isinstance(error, TRANSIENT):
            raise dg.RetryRequested(retries.max_retries, retries.delay_s) from failure
        raise failure from None
    except Exception as error:
        raise dg.Failure(
            description=f"{type(error).__name__}: {error}. This is a fault of ours, not of the experiment; "
            "please report it with the stack trace",
            metadata={"error": type(error).__name__, "exit_status": MetricBenchmarkError.exit_status},
            allow_retries=False,
        ) from error


def refuse_cancelled(context: dg.AssetExecutionContext) -> None:
    """Stops a run that someone cancelled just as the daemon took it from the queue; Dagster starts it all the same.

    Raises:
        Failure: the run was cancelled before it began.
    """
    cancelled = context.instance.get_records_for_run(
        context.run.run_id, of_type=dg.DagsterEventType.RUN_CANCELED, limit=1
    )
    if cancelled.records:
        raise dg.Failure(description=CANCELLED, allow_retries=False)


def require_verdicts(done: VariantRun, tolerated: int, n_elsewhere: int = 0) -> None:
    """Fails a variant that leaves the experiment with more trials without a verdict than are tolerated.

    What has a verdict is kept and indexed either way; running the partition again runs only the rest.

    Args:
        done: what running the variant came to.
        tolerated: how many the settings tolerate in all variants together.
        n_elsewhere: how many the other variants have.

    Raises:
        InfrastructureFailure: the infrastructure failed for some of them.
        ExecutionError: no verdict for other reasons; a spent budget stays spent.
    """
    results = done.results
    n = results.n_without_verdict
    if done.stopped is None or not n or n + n_elsewhere <= tolerated:
        return
    n_all = f"{n + n_elsewhere} in all variants, " if n_elsewhere else ""
    failed = [trial for trial in results.trials if not trial.counts]
    is_infrastructure = any(trial.status == "infrastructure" for trial in failed)
    raise (InfrastructureFailure if is_infrastructure else ExecutionError)(
        [
            f"{results.case}|{results.variant}: {done.stopped} ({n_all}{tolerated} tolerated)",
            *(f"{trial.task}, attempt {trial.attempt}: {trial.status}: {trial.reason}" for trial in failed),
        ]
    )
