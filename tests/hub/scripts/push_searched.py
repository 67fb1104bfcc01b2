"""Runs `python -m conversion.push_searched` from the checkout."""

import runpy

runpy.run_module("conversion.push_searched", run_name="__main__", alter_sys=True)
