# SPDX-License-Identifier: Apache-2.0
"""The YAML inputs of an experiment: models, loading, and problems with file and line."""

from metric_benchmark.config.explain import parse_model
from metric_benchmark.config.load import Case, Experiment, Level, load_experiment
from metric_benchmark.config.yaml_source import YamlSource, read_yaml

__all__ = ["Case", "Experiment", "Level", "YamlSource", "load_experiment", "parse_model", "read_yaml"]
