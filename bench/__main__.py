"""Run all benchmarks, one after the other: `python -m bench`."""

import runpy
import sys

MODULES = ("bench.startup", "bench.writers", "bench.lexical", "bench.pack", "bench.mcp", "bench.gateway")

if __name__ == "__main__":
    failed = []
    for module in MODULES:
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as leaving:
            failed += [module] if leaving.code else []
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
