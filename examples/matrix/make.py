# SPDX-License-Identifier: Apache-2.0
"""Makes kills.csv, coverage.csv and subsets.csv: mutation testing of calculator.py, as any mutation tool reports it.

    .venv/bin/python examples/matrix/make.py

Every mutant changes one operator, comparison or constant of the program; it is killed by a test whose outcome differs.
Items are the program's lines. Nothing here uses metric-benchmark: the point is that matrices come from elsewhere.
"""

import ast
import copy
import csv
import random
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = (HERE / "calculator.py").read_text()
MAX_LINES = 5_000
N_MUTANTS, N_SUBSETS, SIZES, SEED = 60, 200, (3, 6, 9, 12), 1

TESTS = {
    "adds": ["1+2"], "subtracts": ["7-4-2"], "multiplies": ["3*4"], "divides": ["9/3/3"], "precedence": ["2+3*4"],
    "parentheses": ["(2+3)*4"], "nested": ["((1+1)*(2+2))"], "negates": ["-3+5"], "double-minus": ["--4"],
    "powers": ["2^3"], "power-right": ["2^3^2"], "power-large": ["2^101"], "power-limit": ["1^100"],
    "decimals": ["1.5+2.25"], "two-points": ["1.2.3"], "spaces": ["  4   +  4 "], "percent": ["50%*80"],
    "millimetres": ["5mm"], "centimetres": ["250cm+1m"], "kilometres": ["2km-500m"], "unknown-unit": ["3miles"],
    "assigns": ["x=3", "x*2"], "reassigns": ["x=3", "x=x+1", "x"], "pi": ["2*pi"], "pi-fixed": ["pi=3"],
    "unknown-name": ["y+1"], "last": ["2+2", "last*3"], "no-last": ["last"], "history": ["1", "2", "last+last"],
    "min": ["min(3,1,2)"], "max": ["max(3,1,2)"], "mean": ["mean(1,2,6)"], "mean-one": ["mean(4)"],
    "abs": ["abs(-2)+abs(2)"], "abs-zero": ["abs(0)"], "sqrt": ["sqrt(16)"], "sqrt-negative": ["sqrt(-1)"],
    "sqrt-zero": ["sqrt(0)"], "clamp-low": ["clamp(1,0,5)"], "clamp-high": ["clamp(1,9,5)"],
    "clamp-inside": ["clamp(1,3,5)"], "clamp-empty": ["clamp(5,3,1)"], "clamp-edge": ["clamp(2,2,2)"],
    "wrong-arity": ["sqrt(1,2)"], "unknown-function": ["cube(2)"], "division-by-zero": ["1/0"], "empty": [""],
    "blank": ["   "], "unclosed": ["(1+2"], "unclosed-call": ["min(1,2"], "left-over": ["1 2"], "bad-sign": ["1#2"],
    "ends-early": ["1+"], "stray-sign": ["*2"], "mixed": ["a=2^2", "max(a,3)*50%-(1+1)/4"],
    "everything": ["r=20cm", "pi*r^2", "last/2+mean(1,2)"],
}  # fmt: skip

SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Lt: ast.LtE,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip


class Cut(Exception):
    """A mutant that runs for too long."""


def places(tree):
    """Yields every place that can be mutated: (kind, index in the walk, line)."""
    for index, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
            yield "operator", index, node.lineno
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield "comparison", index, node.lineno
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield "constant", index, node.lineno
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield "negation", index, node.lineno


def mutate(tree, kind, index):
    changed = copy.deepcopy(tree)
    node = list(ast.walk(changed))[index]
    if kind == "operator":
        node.op = SWAPS[type(node.op)]()
    elif kind == "comparison":
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif kind == "constant":
        node.value = node.value + 1
    else:
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    return ast.fix_missing_locations(changed)


def run(tree, test):
    """Returns a test's outcome and the lines it executes."""
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_filename != "calculator.py":
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) > MAX_LINES:
                raise Cut
        return trace

    module = {"__name__": "calculator"}
    exec(compile(tree, "calculator.py", "exec"), module)
    outcome = []
    sys.settrace(trace)
    try:
        calculator = module["Calculator"]()
        for text in TESTS[test]:
            outcome.append(calculator.run(text))
    except Exception as error:  # noqa: BLE001  (whatever a mutant raises is its outcome)
        outcome.append(f"{type(error).__name__}: {error}")
    finally:
        sys.settrace(None)
    return outcome, set(lines)


def write(path, corner, rows, columns, cells):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([corner, *columns])
        writer.writerows([row, *(int(cell) for cell in values)] for row, values in zip(rows, cells, strict=True))


def main(folder=HERE):
    tree, rng = ast.parse(SOURCE), random.Random(SEED)
    expected = {test: run(tree, test) for test in TESTS}
    chosen = sorted(rng.sample(list(places(tree)), N_MUTANTS), key=lambda place: (place[2], place[1]))
    mutants = [f"line {line}: {kind} {index}" for kind, index, line in chosen]
    trees = [mutate(tree, kind, index) for kind, index, _ in chosen]
    kills = [[run(mutant, test)[0] != expected[test][0] for mutant in trees] for test in TESTS]
    lines = sorted(set().union(*(covered for _, covered in expected.values())))
    write(folder / "kills.csv", "task", TESTS, mutants, kills)
    covered = [[line in expected[test][1] for line in lines] for test in TESTS]
    write(folder / "coverage.csv", "task", TESTS, [f"line {line}" for line in lines], covered)
    subsets = [set(rng.sample(list(TESTS), SIZES[k % len(SIZES)])) for k in range(N_SUBSETS)]
    names = [f"s{k:03d}" for k in range(N_SUBSETS)]
    write(folder / "subsets.csv", "subset", names, TESTS, [[test in subset for test in TESTS] for subset in subsets])


if __name__ == "__main__":
    main()
