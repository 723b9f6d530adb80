# SPDX-License-Identifier: Apache-2.0
"""What runs inside a sandbox: PID 1 and its children, on the standard library alone.

Started as ``python -I -S`` with the folder above on ``sys.path``, so that nothing of the host's site-packages is
loaded: modules here import each other relatively and nothing else of this package.
"""
