import subprocess
import sys


def test_importing_the_package_loads_neither_a_vocabulary_nor_anything_heavy():
    program = (
        "import sys, satchel.text.tokens\n"
        "satchel.text.tokens.counter('gpt-4o'), satchel.text.tokens.counter('claude')\n"
        "heavy = {'splintr', 'numpy', 'msgspec', 'dataclasses', 'difflib'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"
