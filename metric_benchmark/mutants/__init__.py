# SPDX-License-Identifier: Apache-2.0
"""Mutation operators, and the Harbor agent that lets them act on any other agent."""
