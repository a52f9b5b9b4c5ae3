#!/usr/bin/env python3
"""Writes tests/data/numpy: for every row of ops.def, inputs and what NumPy makes of them.

Needs numpy, ml_dtypes (bfloat16) and mpmath (erf, gelu and sigmoid, which NumPy lacks). Where docs/numbers.md
defines a result that NumPy does not (integers divided by zero, saturating casts, the order of a sum, the sign of a
zero that is a minimum) the definition is written out here once more, in plain Python over NumPy's arithmetic, and
held against NumPy where both agree. A row without cases is an error. Deterministic: the same bytes on each run.

A file is a sequence of records, each one line of JSON. {"array": n, "dtype", "shape", "bytes": k} is followed by k
bytes, little-endian and row-major; {"op", "in": [arrays], "out": array, "attributes", "ulps"} is a case: `ulps` says
how far NumPy itself may be from the correctly rounded result.
"""
import json
import pathlib
import re
import sys

import ml_dtypes
import mpmath
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
DTYPES = {
    "bool": np.dtype(np.bool_),
    "uint8": np.dtype(np.uint8),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
BOOL, U8, I32, I64, F16, BF16, F32, F64 = DTYPES.values()
ALL = list(DTYPES.values())
FLOATING, INTEGER, HALF = [F16, BF16, F32, F64], [U8, I32, I64], [F16, BF16]
ACCEPTS = {
    "any": ALL, "numeric": INTEGER + FLOATING, "floating": FLOATING, "integral": [BOOL] + INTEGER,
    "integer": INTEGER, "boolean": [BOOL]
}

np.seterr(all="ignore")
mpmath.mp.prec = 200
rng = np.random.default_rng(20240601)


def name_of(dtype):
    return next(n for n, d in DTYPES.items() if d == dtype)


# ---- the table and the files


def rows():
    text = (ROOT / "include/reprise/ops.def").read_text()
    found = re.findall(r"^([A-Z_]+)\((\w+), *([^\n]*)", text, re.M)
    assert len(found) > 70, "ops.def was not understood"
    table = {}
    for kind, op, rest in found:
        columns = [c.strip() for c in rest.split(",")]
        row = {"kind": kind}
        if kind == "ELEMENTWISE":
            row |= {
                "arity": int(columns[0]), "accepts": ACCEPTS[columns[1]], "result": columns[2],
                "ulps": int(columns[3])
            }
        elif kind == "REDUCTION":
            row |= {"accepts": ACCEPTS[columns[0]], "result": columns[1]}
        table[op] = row
    return table


class Output:

    def __init__(self):
        self.records, self.arrays, self.cases = [], {}, {}

    def array(self, a):
        a = np.asarray(a)
        data, key = a.tobytes(), (name_of(a.dtype), a.shape, a.tobytes())
        if key not in self.arrays:
            self.arrays[key] = len(self.arrays)
            head = {"array": self.arrays[key], "dtype": key[0], "shape": list(a.shape), "bytes": len(data)}
            self.records.append(json.dumps(head, separators=(",", ":")).encode() + b"\n" + data)
        return self.arrays[key]

    def case(self, op, operands, result, attributes=None, ulps=0):
        case = {"op": op, "in": [self.array(a) for a in operands], "out": self.array(result)}
        if attributes:
            case["attributes"] = attributes
        if ulps:
            case["ulps"] = ulps
        self.records.append(json.dumps(case, separators=(",", ":")).encode() + b"\n")
        self.cases[op] = self.cases.get(op, 0) + 1


# ---- inputs

F_SPECIAL = [
    0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 2, -3, 7.3, -7.3, 100.25, 1e-3, np.inf, -np.inf, np.nan
]
INT_SPECIAL = {
    "uint8": [0, 1, 2, 3, 7, 8, 9, 31, 100, 127, 128, 200, 254, 255],
    "int32": [-2**31, -2**31 + 1, -33, -7, -2, -1, 0, 1, 2, 3, 7, 31, 32, 33, 2**31 - 2, 2**31 - 1],
    "int64": [
        -2**63, -2**63 + 1, -2**31, -65, -7, -2, -1, 0, 1, 2, 3, 31, 63, 64, 2**32 + 1, 2**53 + 1, 2**63 - 1
    ]
}


def specials(dtype):
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in INTEGER:
        return np.array(INT_SPECIAL[name_of(dtype)], dtype)
    info = ml_dtypes.finfo(dtype)
    edge = [
        float(info.max), -float(info.max),
        float(info.smallest_normal),
        float(info.smallest_subnormal), -float(info.smallest_subnormal)
    ]
    return np.array(F_SPECIAL + edge, np.float64).astype(dtype)


def random_array(dtype, shape, special=0.2, scale=None):
    n = int(np.prod(shape, dtype=np.int64))
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTEGER:
        small = rng.integers(0 if dtype == U8 else -100, 100, n).astype(dtype)
    elif scale is not None:
        small = (rng.standard_normal(n) * scale).astype(dtype)
    else:
        small = (rng.standard_normal(n) * 10.0**rng.integers(-3, 3, n)).astype(dtype)
    pool = specials(dtype)
    pick = rng.random(n) < special
    return np.where(pick, pool[rng.integers(0, len(pool), n)], small).astype(dtype).reshape(shape)


# ---- integers, by Python's own


def wrap(value, dtype):
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype != U8 and value >> (bits - 1) else value


def by_integers(f, dtype, *operands):
    shape = np.broadcast_shapes(*(np.shape(a) for a in operands))
    lists = [np.broadcast_to(a, shape).ravel().tolist() for a in operands]
    return np.array([wrap(f(*values), dtype) for values in zip(*lists)], dtype).reshape(shape)


def int_div(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def int_pow(a, b):
    if b >= 0:
        return pow(a, b, 1 << 64)
    return 1 if a == 1 else (1 if b % 2 == 0 else -1) if a == -1 else 0


def shift(a, b, width, left):
    if left:
        return a << b if 0 <= b < width else 0
    return a >> b if 0 <= b < width else (-1 if a < 0 else 0)


# ---- floating definitions of docs/numbers.md


def f_mod(a, b):
    r = np.fmod(a, b)
    zero = np.copysign(r.dtype.type(0), b)
    result = np.where(r == 0, zero, np.where(np.signbit(r) != np.signbit(b), r + b, r)).astype(r.dtype)
    theirs = np.remainder(a, b)
    same = (result == theirs) | (np.isnan(result) & np.isnan(theirs)) | np.isnan(r)
    assert same.all(), "mod is not NumPy's"
    return result


def f_floor_divide(a, b):
    r = np.fmod(a, b)
    q = (a - r) / b
    q = np.where((r != 0) & (np.signbit(r) != np.signbit(b)), q - q.dtype.type(1), q)
    below = np.floor(q)
    result = np.where(q - below > 0.5, below + 1, below)
    result = np.where(q == 0, np.copysign(q.dtype.type(0), a / b), result)
    result = np.where(b == 0, a / b, result).astype(q.dtype)
    assert equal(result, np.floor_divide(a, b)), "floor_divide is not NumPy's"
    return result


def f_minimum(a, b):
    return np.where((a == b) & (np.signbit(a) | np.signbit(b)), -np.abs(a),
                    np.minimum(a, b)).astype(np.result_type(a, b))


def f_maximum(a, b):
    return np.where((a == b) & ~(np.signbit(a) & np.signbit(b)), np.abs(a),
                    np.maximum(a, b)).astype(np.result_type(a, b))


def by_mpmath(f, a, nan_at_minus_inf=False):

    def one(x):
        if np.isnan(x) or (np.isneginf(x) and nan_at_minus_inf):
            return np.nan
        return f(mpmath.mpf(float(x)))

    out = []
    for x in np.asarray(a, np.float64).ravel():
        y = one(x)
        if isinstance(y, float):
            out.append(y)
        else:  # mpmath knows no signed zero, and rounds to 53 bits without denormals: both by hand
            f64 = mpmath.ldexp(1, -1074)
            y = float(mpmath.nint(y / f64) *
                      f64) if mpmath.isfinite(y) and abs(y) < mpmath.ldexp(1, -1022) else float(y)
            out.append(-0.0 if y == 0 and np.signbit(x) and f is not mp_sigmoid else y)
    return np.array(out, np.float64).reshape(np.shape(a))


LARGE = 1e4  # from here on these functions are their limits


def mp_sigmoid(x):
    return 1 / (1 + mpmath.exp(-x)) if abs(x) < LARGE else mpmath.mpf(x > 0)


def mp_gelu(x):
    return x / 2 * mpmath.erfc(-x / mpmath.sqrt(2)) if abs(x) < LARGE else max(x, mpmath.mpf(0))


def mp_gelu_tanh(x):
    u = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x * mp_sigmoid(2 * u) if abs(x) < LARGE else max(x, mpmath.mpf(0))


def mp_erf(x):
    return mpmath.erf(x) if abs(x) < LARGE else mpmath.sign(x)


MPMATH = {"sigmoid": mp_sigmoid, "erf": mp_erf, "gelu": mp_gelu, "gelu_tanh": mp_gelu_tanh}
NUMPY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sqrt": np.sqrt, "fmod": np.fmod,
    "div": np.divide, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "isnan": np.isnan,
    "isfinite": np.isfinite, "isinf": np.isinf, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "logical_not": np.logical_not, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "invert": np.invert, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "pow": np.power, "rsqrt": lambda a: 1 / np.sqrt(a)
}
DEFINED = {
    "mod": f_mod, "floor_divide": f_floor_divide, "minimum": f_minimum, "maximum": f_maximum,
    "clip": lambda a, low, high: f_minimum(f_maximum(a, low), high),
    "relu": lambda a: f_maximum(a, np.zeros_like(a))
}
BY_INTEGERS = {
    "div": int_div,
    "floor_divide": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: a - b * int_div(a, b) if b else 0,
    "pow": int_pow,
}
# where a half's own arithmetic in NumPy and ml_dtypes must be f32's, rounded
NATIVE_HALF = [
    "add", "sub", "mul", "div", "sqrt", "neg", "abs", "floor", "ceil", "round", "trunc", "equal", "less",
    "logical_and"
]


def equal(a, b):
    a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
    return bool((((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))).all())


def evaluate(op, row, dtype, operands):
    """The result, and how many ulps it may be from the correctly rounded one."""
    operands = [np.asarray(a) for a in operands]
    if dtype in INTEGER:
        if op in ("left_shift", "right_shift"):
            return by_integers(lambda a, b: shift(a, b, 8 * dtype.itemsize, op == "left_shift"), dtype,
                               *operands), 0
        if op in BY_INTEGERS:
            result = by_integers(BY_INTEGERS[op], dtype, *operands)
            if op in ("floor_divide", "mod", "fmod"):
                numpy_s = {"floor_divide": np.floor_divide, "mod": np.remainder, "fmod": np.fmod}[op]
                defined = np.broadcast_to(operands[1] != 0, result.shape)
                assert np.array_equal(numpy_s(*operands)[defined], result[defined]), op
            return result, 0
    if dtype in INTEGER + [BOOL]:
        if op == "sign":
            return np.sign(operands[0]), 0
        if op in ("minimum", "maximum", "clip", "relu"):
            low = np.zeros_like(operands[0])
            return {
                "minimum": lambda: np.minimum(*operands), "maximum": lambda: np.maximum(*operands),
                "clip": lambda: np.minimum(np.maximum(operands[0], operands[1]), operands[2]),
                "relu": lambda: np.maximum(operands[0], low)
            }[op](), 0
        return NUMPY[op](*operands), 0

    single = [a.astype(F32) if dtype in HALF else a for a in operands]
    if row["ulps"] == 0:
        result = DEFINED[op](*single) if op in DEFINED else NUMPY[op](*single)
        if dtype in HALF and op in NATIVE_HALF:
            native = NUMPY[op](*operands)
            rounded = result if row["result"] == "boolean" else np.asarray(result).astype(dtype)
            assert equal(native, rounded), (op, dtype)
        return result, 0
    if op in MPMATH:
        wide = by_mpmath(MPMATH[op], operands[0].astype(F64), nan_at_minus_inf=op in ("gelu", "gelu_tanh"))
        return (wide if dtype == F64 else np.asarray(wide).astype(F32)), 1
    wide = NUMPY[op](*(a.astype(np.longdouble if dtype == F64 else F64) for a in operands))
    return np.asarray(wide).astype(F64 if dtype == F64 else F32), 1


# ---- cases


def elementwise(out, op, row):
    for dtype in row["accepts"]:
        pool, arity = specials(dtype), row["arity"]
        if arity == 1:
            inputs = [[pool], [random_array(dtype, (64,), 0)]]
        elif arity == 2:
            inputs = [[np.repeat(pool, len(pool)), np.tile(pool, len(pool))],
                      [random_array(dtype, (64,), 0) for _ in range(2)]]
        else:
            inputs = [[random_array(dtype, (150,), 0.5) for _ in range(3)]]
        inputs += [shared_random(dtype, arity, shape) for shape in [(), (0, 3), (1,), (7,), (3, 5)]]
        if arity > 1:  # each operand of rank 0 beside the others
            inputs += [[
                a if k != j else a.ravel()[0] for j, a in enumerate(shared_random(dtype, arity, (3, 5)))
            ] for k in range(arity)]
        for operands in inputs:
            result, ulps = evaluate(op, row, dtype, operands)
            result = np.asarray(result).astype(BOOL if row["result"] == "boolean" else dtype)
            out.case(op, operands, result, ulps=ulps)


shared = {}


def shared_random(dtype, arity, shape):
    """The same inputs for each row: they are stored once."""
    return [shared.setdefault((dtype, k, shape), random_array(dtype, shape)) for k in range(arity)]


def cast(a, to):
    a = np.asarray(a)
    if a.dtype == to:
        return a
    if to == BOOL:
        return a.astype(F64 if a.dtype in FLOATING else a.dtype) != 0
    if a.dtype in FLOATING and to in INTEGER:
        info, values = np.iinfo(to), a.astype(F64).ravel().tolist()
        saturated = [0 if x != x else int(max(min(x, 2.0**70), -(2.0**70))) for x in values]
        return np.array([min(max(v, info.min), info.max) for v in saturated], to).reshape(a.shape)
    if a.dtype in (I64, F64) and to in HALF:
        return a.astype(F32).astype(to)
    return a.astype(to)


def casts(out):
    for source in ALL:
        near = {
            F16: [65519, 65520, 65504, -65520, 5.9e-8, 2.9e-8], BF16: [],
            F32: [3.4e38, 16777217, 2147483648, 0.99], F64: [
                3.5e38, 2147483647.5, -2147483648.5, 9.3e18, 1 + 2**-11 + 2**-40, 65519.999, 1e-46, 254.9,
                255.5, -0.9
            ]
        }.get(source, [])
        pool = np.concatenate(
            [specials(source),
             np.array(near, F64).astype(source),
             random_array(source, (40,), 0)])
        for target in ALL:
            out_attribute = {"dtype": name_of(target)}
            for a in [pool, pool[-1].reshape(()), np.zeros((0, 3), source), random_array(source, (3, 5))]:
                out.case("cast", [a], cast(a, target), out_attribute)


def wheres(out):
    for dtype in ALL:
        for shape in [(), (0, 3), (7,), (3, 5)]:
            c, (x, y) = random_array(BOOL, shape), shared_random(dtype, 2, shape)
            out.case("where", [c, x, y], np.where(c, x, y).astype(dtype))
        c, (x, y) = random_array(BOOL, (3, 5)), shared_random(dtype, 2, (3, 5))
        out.case("where", [c, x, y[0, 0]], np.where(c, x, y[0, 0]).astype(dtype))
        out.case("where", [c, x[0, 0], y], np.where(c, x[0, 0], y).astype(dtype))
        out.case("where", [np.array(True), x, y[0, 0]], x)


# ---- reductions in the order of docs/numbers.md, over NumPy's arithmetic


def tree(f, p):
    p = list(p)
    while len(p) > 1:
        h = (len(p) + 1) // 2
        p = [f(p[i], p[i + h]) if i + h < len(p) else p[i] for i in range(h)]
    return p[0]


def ordered(f, identity, e, lanes):
    """e: (n, results), summed along its first axis."""
    if lanes:
        blocks = []
        for first in range(0, len(e), 4096):
            part = e[first:first + 4096]
            rest = -len(part) % 128
            part = np.concatenate([part, np.full((rest, e.shape[1]), identity, e.dtype)])
            sums = np.full((128, e.shape[1]), identity, e.dtype)
            for step in part.reshape(-1, 128, e.shape[1]):
                sums = f(sums, step)
            blocks.append(tree(f, sums))
        return tree(f, blocks)
    runs = []
    for first in range(0, len(e), 128):
        total = e[first]
        for x in e[first + 1:first + 128]:
            total = f(total, x)
        runs.append(total)
    return tree(f, runs)


def reduce(op, a, axes):
    if op in ("any", "all"):
        return getattr(np, op)(a, axis=axes)
    if op in ("sum", "prod") and a.dtype not in FLOATING:
        return np.asarray(getattr(np, op)(a, axis=axes, dtype=I64))
    if op in ("max", "min"):
        r = np.asarray(getattr(np, op)(a.astype(F32) if a.dtype in HALF else a, axis=axes)).astype(a.dtype)
        if a.dtype in FLOATING:
            zeros = a.astype(F64) == 0
            signs = np.signbit(a.astype(F64))
            some = np.any(zeros & (~signs if op == "max" else signs), axis=axes)
            zero = np.where(some == (op == "max"), 0.0, -0.0).astype(a.dtype)
            r = np.where(r.astype(F64) == 0, zero, r).astype(a.dtype)
        return r
    kept = [i for i in range(a.ndim) if i not in axes]
    moved = np.transpose(a, list(axes) + kept)
    shape = moved.shape[len(axes):]
    n = int(np.prod(moved.shape[:len(axes)], dtype=np.int64))
    e = moved.reshape(n, int(np.prod(shape, dtype=np.int64))).astype(F32 if a.dtype in HALF else a.dtype)
    f, identity = (np.add, -0.0) if op == "sum" else (np.multiply, 1.0)
    if e.size == 0:
        return np.full(shape, 0.0 if op == "sum" else 1.0, a.dtype)
    result = ordered(f, identity, e, a.ndim - 1 in axes)
    exact = getattr(np, op)(e.astype(F64), axis=0)
    close = np.isclose(result.astype(F64), exact, rtol=1e-4,
                       atol=1e-4 * np.abs(e.astype(F64)).sum(axis=0).max(initial=0))
    assert (close | ~np.isfinite(exact) | ~np.isfinite(result)).all(), op
    return result.reshape(shape).astype(a.dtype)


def subsets(rank):
    return [tuple(i for i in range(rank) if mask >> i & 1) for mask in range(1, 1 << rank)]


def reductions(out, op, row):
    for dtype in row["accepts"]:
        for shape in [(7,), (3, 5), (2, 3, 5), (4, 1, 3), (130, 33), (130, 9), (129,), (5000,), (300, 2),
                      (2, 4099), (0, 3), (3, 0)]:
            large = {(5000,): (F32, F16), (2, 4099): (BF16, BOOL), (130, 33): (F32, F64, I32)}
            if dtype not in large.get(shape, ALL):
                continue
            key = ("reduce", op == "prod" and dtype in FLOATING, dtype, shape)
            if key not in shared:
                if dtype in FLOATING:
                    near_one = rng.uniform(0.9, 1.1, shape) * rng.choice([-1, 1], shape) if op == "prod" else None
                    shared[key] = near_one.astype(dtype) if op == "prod" \
                        else random_array(dtype, shape, 0, scale=3)
                else:
                    shared[key] = random_array(dtype, shape, 0.1)
            a = shared[key]
            for axes in subsets(len(shape)):
                empty = any(shape[i] == 0 for i in axes)
                if any(shape[i] == 1 for i in axes) or (op in ("max", "min") and 0 in shape
                                                        and all(shape[i] != 0
                                                                for i in range(len(shape)) if i not in axes)):
                    continue
                if op in ("max", "min") and empty:
                    continue
                out.case(op, [a], reduce(op, a, axes), {"axes": list(axes)})
        if dtype in FLOATING:
            for values in ([1, np.nan, 2], [np.inf, -np.inf, 1], [-0.0, -0.0,
                                                                  -0.0], [0.0, -0.0, 0.0], [-np.inf, -1, -2]):
                a = np.array(values, F64).astype(dtype)
                for b, axes in ((a, (0,)), (np.stack([a, a[::-1]], 1), (0,))):
                    out.case(op, [b], reduce(op, b, axes), {"axes": list(axes)})


def arg_reductions(out, op):
    for dtype in ALL:
        arrays = [random_array(dtype, shape, 0.3) for shape in [(7,), (3, 5), (2, 3, 5), (130, 3), (0, 3)]]
        if dtype in FLOATING:
            arrays += [
                np.array(v, F64).astype(dtype)
                for v in ([-0.0, 0.0, -0.0], [0.0, -0.0], [1, np.nan, 2, np.nan], [np.inf, np.inf])
            ]
        for a in arrays:
            for axis in range(a.ndim):
                if a.shape[axis] > 0:
                    wide = a.astype(F32) if a.dtype in HALF else a
                    out.case(op, [a],
                             np.asarray(getattr(np, op)(wide, axis=axis)).astype(I64), {"axis": axis})


# ---- movement, sources, library


def movement(out):
    for dtype in (BOOL, U8, I32, F16, F64):
        a, b, v = random_array(dtype, (3, 5)), random_array(dtype, (2, 3, 4)), random_array(dtype, ())
        for shape in [(5, 3), (15,), (1, 3, 5, 1), (15, 1)]:
            out.case("reshape", [a], a.reshape(shape), {"shape": list(shape)})
        out.case("reshape", [v], v.reshape(1, 1), {"shape": [1, 1]})
        out.case("reshape", [a[:0]], a[:0].reshape(5, 0), {"shape": [5, 0]})
        for axes in [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0)]:
            out.case("transpose", [b], b.transpose(axes), {"axes": list(axes)})
        for x, shape in [(v, ()), (v, (2, 3)), (v, (0,)), (a[:1], (3, 5)), (a[:, :1], (2, 3, 4)),
                         (a, (2, 3, 5)), (a[:1, :1], (4, 1, 2))]:
            out.case("broadcast_to", [x], np.broadcast_to(x, shape), {"shape": list(shape)})
        for start, step, shape in [((0, 0), (1, 1), (3, 5)), ((1, 2), (1, 1), (2, 3)),
                                   ((2, 4), (-1, -1), (3, 5)), ((2, 4), (-2, -3), (2, 2)),
                                   ((0, 0), (2, 3), (2, 2)), ((1, 1), (1, 2), (0, 2)),
                                   ((0, 3), (1, -3), (1, 2)), ((3, 0), (1, 1), (0, 5))]:
            index = tuple([s + i * t for i in range(n)] for s, t, n in zip(start, step, shape))
            grid = np.ix_(*(np.array(i, int) for i in index))
            attributes = {"start": list(start), "step": list(step)}
            out.case("slice", [a], a[grid], attributes | {"shape": list(shape)})
            part, updated = random_array(dtype, shape), a.copy()
            updated[grid] = part
            out.case("slice_update", [a, part], updated, attributes)
        for parts, axis in [([a], 0), ([a, a[::-1]], 0), ([a, a[:, :2], a[:, :0]], 1), ([b, b[:, :1]], 1),
                            ([b[:0], b], 0), ([b, b, b], 2)]:
            out.case("concatenate", parts, np.concatenate(parts, axis), {"axis": axis})
        for x, low, high in [(a, (1, 0), (0, 2)), (a, (0, 0), (0, 0)), (a[:0], (1, 1), (2, 0)),
                             (b, (1, 2, 3), (3, 2, 1)), (v, (), ())]:
            framed = np.full([l + n + h for l, n, h in zip(low, x.shape, high)], v, dtype)
            framed[tuple(slice(l, l + n) for l, n in zip(low, x.shape))] = x
            out.case("pad", [x, v], framed, {"low": list(low), "high": list(high)})
        for x, axes, window, stride, dilation in [(a, (1,), (3,), (1,), (1,)),
                                                  (a, (1,), (2,), (2,), (3,)),
                                                  (a, (0, 1), (2, 2), (1, 3), (2, 1)),
                                                  (b, (2, 1), (2, 3), (1, 1), (2, 1)), (a, (), (), (), ())]:
            shape = list(x.shape)
            for i, w, s, d in zip(axes, window, stride, dilation):
                shape[i] = (x.shape[i] - (w - 1) * d - 1) // s + 1
            result = np.empty(shape + list(window), dtype)
            for index in np.ndindex(*result.shape):
                at = list(index[:x.ndim])
                for i, w, s, d in zip(axes, index[x.ndim:], stride, dilation):
                    at[i] = at[i] * s + w * d
                result[index] = x[tuple(at)]
            if len(axes) == 1 and dilation == (1,):
                theirs = np.lib.stride_tricks.sliding_window_view(x, window, axes)
                assert np.array_equal(np.nan_to_num(theirs), np.nan_to_num(result))
            attributes = {
                "axes": list(axes), "window": list(window), "stride": list(stride), "dilation": list(dilation)
            }
            out.case("sliding_window", [x], result, attributes)


def philox_words(key, count):
    words = []
    for block in range((count + 3) // 4):
        c, k = [block & 0xFFFFFFFF, block >> 32, 0, 0], [key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF]
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words += c
    return np.array(words[:count], I64)


def sources(out):
    for dtype in ALL:
        for shape in [(), (0, 3), (3, 5)]:
            a = random_array(dtype, shape)
            out.case("parameter", [a], a, {"index": 0})
        for value in specials(dtype):
            bits = int.from_bytes(np.asarray(value).tobytes(), "little")
            out.case("constant", [], np.asarray(value, dtype),
                     {"value": bits if bits < 1 << 63 else bits - (1 << 64)})
    for shape, axis in [((5,), 0), ((2, 3), 0), ((2, 3), 1), ((2, 3, 4), 1), ((0, 3), 1), ((1, 1), 0)]:
        extents = [1] * len(shape)
        extents[axis] = shape[axis]
        index = np.broadcast_to(np.arange(shape[axis], dtype=I64).reshape(extents), shape)
        out.case("iota", [], index, {"shape": list(shape), "axis": axis})
    assert [hex(w) for w in philox_words(0, 4)] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    for key in (0, 1, 2**40 + 12345, -1, -2**63):
        for shape in [(), (3,), (4,), (3, 5), (0,)]:
            words = philox_words(key, int(np.prod(shape, dtype=np.int64)))
            out.case("philox", [np.array(key, I64)], words.reshape(shape), {"shape": list(shape)})


def product(a, b):
    if a.dtype in INTEGER:
        return np.matmul(a, b)
    wide = np.longdouble if a.dtype == F64 else F64
    r = np.matmul(a.astype(wide), b.astype(wide))
    return r.astype(F32).astype(a.dtype) if a.dtype in HALF else r.astype(a.dtype)


def convolve(x, w, stride, padding, dilation, groups):
    wide = x.dtype if x.dtype in INTEGER else np.longdouble if x.dtype == F64 else F64
    top, left, bottom, right = padding
    framed = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))).astype(wide)
    rows_, columns = ((framed.shape[2 + i] - (w.shape[2 + i] - 1) * dilation[i] - 1) // stride[i] + 1
                      for i in range(2))
    result = np.zeros((x.shape[0], w.shape[0], rows_, columns), wide)
    each = w.shape[0] // groups
    for o in range(w.shape[0]):
        first = o // each * w.shape[1]
        for channel, i, j in np.ndindex(*w.shape[1:]):
            r, s = i * dilation[0], j * dilation[1]
            part = framed[:, first + channel, r:r + (rows_ - 1) * stride[0] + 1:stride[0],
                          s:s + (columns - 1) * stride[1] + 1:stride[1]]
            result[:, o] += part * wide_number(w[o, channel, i, j], wide)
    return result.astype(F32).astype(x.dtype) if x.dtype in HALF else result.astype(x.dtype)


def wide_number(value, wide):
    return np.asarray(value).astype(wide)


def library(out):
    for dtype in INTEGER + FLOATING:
        ulps = 1 if dtype in FLOATING else 0

        def draw(*shape):
            return random_array(dtype, shape, 0, scale=1) if dtype in FLOATING else random_array(
                dtype, shape, 0.3)

        for a, b in [((1, 1), (1, 1)), ((3, 5), (5, 2)), ((7, 13), (13, 11)), ((2, 3, 4), (4, 5)),
                     ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
                     ((1, 40), (40, 1))]:
            x, y = draw(*a), draw(*b)
            out.case("matmul", [x, y], product(x, y), ulps=ulps)
        for x, w, stride, padding, dilation, groups in [
            ((1, 1, 5, 5), (1, 1, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
            ((2, 3, 7, 6), (4, 3, 3, 2), (2, 1), (1, 0, 1, 1), (1, 1), 1),
            ((1, 4, 6, 6), (6, 2, 3, 3), (1, 2), (2, 1, 0, 1), (2, 1), 2),
            ((1, 3, 4, 4), (3, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 3),
            ((0, 2, 4, 4), (2, 2, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1)
        ]:
            image, kernel = draw(*x), draw(*w)
            attributes = {
                "stride": list(stride), "padding": list(padding), "dilation": list(dilation), "groups": groups
            }
            out.case("conv2d", [image, kernel], convolve(image, kernel, stride, padding, dilation, groups),
                     attributes, ulps)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/data/numpy"
    folder.mkdir(parents=True, exist_ok=True)
    table = rows()
    files = {name: Output() for name in ("elementwise", "conversions", "reductions", "movement", "library")}
    for op, row in table.items():
        if row["kind"] == "ELEMENTWISE":
            elementwise(files["elementwise"], op, row)
        elif row["kind"] == "REDUCTION":
            reductions(files["reductions"], op, row)
        elif row["kind"] == "ARG_REDUCTION":
            arg_reductions(files["reductions"], op)
    casts(files["conversions"])
    wheres(files["conversions"])
    movement(files["movement"])
    sources(files["movement"])
    library(files["library"])

    counts = {}
    for output in files.values():
        counts |= output.cases
    missing = [op for op, row in table.items() if row["kind"] != "REGION" and op not in counts]
    if missing:
        sys.exit(f"no cases for {', '.join(missing)}")
    for name, output in files.items():
        data = b"".join(output.records)
        (folder / f"{name}.bin").write_bytes(data)
        print(f"{name}.bin: {len(output.cases)} rows, {sum(output.cases.values())} cases, {len(data)} bytes")


if __name__ == "__main__":
    main()
