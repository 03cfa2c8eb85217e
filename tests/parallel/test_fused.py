"""Functions compiled to a single kernel equal `vmap`: GPU kernels interpreted on the CPU, and native kernels."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support import assert_same, by_xla

import rbd_jax as rbd
from rbd_jax.compiler import faults, fusing, policy as choice, primitive as mapped
from rbd_jax.compiler.cpu import groups, routine as machine_code, xla_ffi as foreign
from rbd_jax.compiler.gpu import registers, thread as threads


X = np.random.default_rng(0).normal(size=(5, 4))
K = np.array([0, 2, 1, 3, 1])
ROWS = np.random.default_rng(1).normal(size=(5, 400, 2))
TABLE = np.random.default_rng(2).normal(size=(400, 4))


def driven(x, rows):
    """A long loop with rows per sample, constant rows, and results per iteration."""

    def step(carry, given):
        row, known, number = given
        x, fixed, count = carry
        x = 0.9 * x + jnp.tile(row, 2) * known * fixed
        return (x, fixed, count + 1), (x[:2] + number.astype(x.dtype), count, x[0] > 0)

    (end, *_), told = lax.scan(step, (x, x[0] * 2, 0), (rows, TABLE, jnp.arange(400)))
    return end, *told, jnp.max(told[0], axis=0), told[0][::100] - x[None, :2]


def alike(x):
    """A long loop whose rows are computed, but equal in each iteration."""
    rows = jnp.tile(2 * x, (300, 1)), jnp.full(300, x[1])
    return lax.scan(lambda y, row: (jnp.sin(y) + row[0], row[1] * y[0]), x, rows)


def block_by_block(x, rows):
    """Nested long loops, with rows of each: from an argument, and constant ones."""

    def block(y, given):
        step = lambda y, row: (0.5 * y + row[0] * row[1], None)
        return lax.scan(step, y, given)[0], y[0]

    return lax.scan(block, x, (rows, np.cos(np.arange(300.0 * 260)).reshape(300, 260)), reverse=True)


def many(x):
    """Results with more entries than `fused.IN_COLUMNS`."""
    return jnp.outer(jnp.tile(x, 3), jnp.sin(x)), jnp.outer(jnp.tile(x, 3), x) > 0.1


def newton(x):
    """Computes square roots; the number of iterations depends on the sample and may be zero."""
    goes_on = lambda carry: (jnp.max(jnp.abs(carry[0] ** 2 - x**2)) > 1e-12) & (carry[1] < x[0] * 30)
    return lax.while_loop(goes_on, lambda carry: (0.5 * (carry[0] + x**2 / carry[0]), carry[1] + 1), (x, 0))


def searches(x):
    """Nested searches in a long loop; a search that is not started may not terminate."""

    def outer(carry):
        y, count = carry
        low = lax.while_loop(lambda z: (z > y) & (y > 0), lambda z: z / 2, jnp.abs(jnp.sin(y) * 8))
        return y - low - 0.1, count + 1

    step = lambda y, _: (lax.while_loop(lambda carry: carry[0] > 1, outer, (3 + jnp.cos(y), 0))[0], y)
    return lax.scan(step, jnp.abs(x[0]), None, length=300)


def at_places(x, k):
    """Reads and writes at indices from the sample: inside, and beyond the ends."""
    place = jnp.stack([k, k + 2, -k - 1, 9 * k])
    table = jnp.outer(x, x)
    return (
        x[k],
        x[place],
        table[place[:2], place[1:3]],
        lax.dynamic_slice(table, (k, 1), (2, 2)),
        lax.dynamic_update_slice(table, table[:1, :2], (k, k)),
        x.at[place].set(jnp.arange(4.0)),
        x.at[place].add(x),
        x.at[k].set(7.0, mode="clip"),
        jax.vmap(lambda row, k: row[k])(table, place % 4),
        jax.vmap(lambda row, k: row.at[k].add(1.0))(table, place % 4),
    )


def large_branches(k, x):
    """Each branch is large enough for a jump; results of untaken branches must not leak."""
    powers = lambda x: sum(jnp.outer(x, x) ** number for number in range(1, 12)).sum(0)
    branches = [
        lambda x: powers(jnp.sin(x)),
        lambda x: jnp.log(x - 9) + powers(x),
        lambda x: powers(jnp.cos(x)),
    ]
    some = lax.switch(2 * k, branches, x)  # no sample takes the middle branch
    return some, lax.cond(x[0] > 0, lambda x: (powers(x), 1), lambda x: (x, 2), some / 50)


FUNCTIONS = {
    "elements": (lambda x: jnp.clip(jnp.sin(x) * 2.0 / (1 + x**2), -0.5, jnp.abs(x)), (X,)),
    "roots and powers": (lambda x: (jnp.sqrt(1 + x**2), jnp.exp(x) ** 1.5, jnp.arctan2(x, x[::-1])), (X,)),
    "arrays": (lambda x: (jnp.outer(x, x)[1:, ::2].T, x[np.array([2, 0])], jnp.concatenate([x, x]).sum()), (X,)),
    "a random key that nothing uses": (lambda x, key: jnp.sin(x), (X, jax.random.split(jax.random.key(0), 5))),
    "kinds": (lambda x, k: (k * 2, x > 0, k.astype(float), x.astype(jnp.float32), k % 2 == 1, jnp.isfinite(x)), (X, K)),
    "truth values": (lambda x: jnp.where((x > 0) & ~(x < 1) | (x == x[0]), x, -x), (X,)),
    "given truth values": (lambda x: jnp.where(x, 1.0, 2.0), (X > 0,)),
    "what is the same for all": (lambda x: (TABLE[:2], jnp.asarray(3), x[:0]), (X,)),
    "a branch for each": (lambda k, x: lax.switch(k, [jnp.sin, jnp.cos, lambda x: -x], x), (K, X)),
    "large branches": (large_branches, (K, X)),
    "a condition": (lambda x: lax.cond(x[0] > 0, lambda x: (x, 1), lambda x: (2 * x, 2), x), (X,)),
    "short loops": (lambda x: lax.fori_loop(0, 4, lambda i, y: y * x + i, x), (X,)),
    "a long loop": (lambda x: lax.fori_loop(0, 1000, lambda i, y: 0.5 * y + jnp.sin(x), x), (X,)),
    "rows": (driven, (X, ROWS)),
    "rows that are all the same": (alike, (X,)),
    "many results": (many, (ROWS[:4, :37, 0].T,)),
    "rows backwards": (lambda x, rows: lax.scan(lambda y, row: (y[::-1] + row.sum(), y[1]), x, rows, reverse=True), (X, ROWS)),
    "rows of rows": (block_by_block, (X, np.random.default_rng(6).normal(size=(5, 300, 260)))),
    "a loop in a loop": (lambda x: lax.fori_loop(0, 300, lambda i, y: lax.fori_loop(0, 300, lambda j, z: z / 2 + x, y), x), (X,)),
    "searches": (newton, (X,)),
    "searches in searches": (searches, (X,)),
    "searches of a batch within": (jax.vmap(lambda x: lax.while_loop(lambda y: y < 9, lambda y: 2 * y + 1, x)), (np.abs(X),)),
    "places of the sample's own": (at_places, (X, K)),
    "gradients": (jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 3)), (X,)),
}  # fmt: skip


@pytest.fixture(scope="module", params=["interpret", True], ids=["threads", "vectors"])
def how(request):
    pytest.importorskip("llvmlite")
    if request.param == "interpret" and jax.default_backend() != "cpu":
        pytest.skip("requires a CPU")
    return request.param


@pytest.fixture
def few(monkeypatch):
    """Lowers the limits so that short programs count as long and are split into parts."""
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(machine_code, "LONG", 12)
    monkeypatch.setattr(machine_code, "PART", 5)


@functools.cache
def mapped_by_jax(name):
    function, batch = FUNCTIONS[name]
    return by_xla(function)(*batch)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "rows of rows")) for name in FUNCTIONS]
)
def test_fused_is_vmap(name, how):
    function, batch = FUNCTIONS[name]
    assert_same(rbd.batch_map(function, fused=how)(*batch), mapped_by_jax(name))


OPERATIONS = {
    "fd": lambda model, q, v, tau: rbd.forward_dynamics(model, q, v, tau),
    "id": lambda model, q, v, tau: rbd.inverse_dynamics(model, q, v, tau),
    "mass": lambda model, q, v, tau: rbd.mass_matrix(model, q),
    "rollout": lambda model, q, v, tau: rbd.rollout(model, rbd.State(q, v), dt=0.01, steps=300),
    "vjp": lambda model, q, v, tau: jax.grad(lambda q: jnp.sum(rbd.forward_dynamics(model, q, v, tau)))(q),
}  # fmt: skip


def samples(model, count):
    draw = np.random.default_rng(3).normal
    dq, v, tau = (draw(size=(count, model.nv)).astype(model.dtype) for _ in range(3))
    return moved(model, dq), v, tau


@jax.jit
def moved(model, dq):
    return jax.vmap(lambda dq: rbd.integrate(model, rbd.neutral(model), dq))(dq)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_dynamics(operation, how):
    """A full block, and one with more threads than samples."""
    check("double_pendulum", operation, 37, how)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["fd", "id", "mass", "rollout"])
@pytest.mark.parametrize("robot", ["arm7", "hopper"])
def test_dynamics_of_robots(robot, operation, how):
    check(robot, operation, 3, how)


@functools.cache
def dynamics(robot, operation, count):
    """Returns a function of a robot, samples, and the results of `vmap`."""
    model = rbd.load(robot)
    function = lambda *x: OPERATIONS[operation](model, *x)
    batch = samples(model, count)
    return function, batch, by_xla(function)(*batch)


def check(robot, operation, count, how):
    function, batch, expected = dynamics(robot, operation, count)
    assert_same(rbd.batch_map(function, fused=how)(*batch), expected)


@pytest.mark.parametrize("count", [1, 32, 64])
def test_sizes_of_batches(count, how):
    x = np.arange(3.0 * count).reshape(count, 3)
    assert_same(rbd.batch_map(jnp.sin, fused=how)(x), np.sin(x))


def test_single_precision(how):
    model = rbd.astype(rbd.load("double_pendulum"), jnp.float32)
    function = lambda *x: rbd.forward_dynamics(model, *x)
    batch = samples(model, 33)
    found = rbd.batch_map(function, fused=how)(*batch)
    assert found.dtype == jnp.float32
    assert_same(found, by_xla(function)(*batch), 1e-4)


def test_what_is_shared_is_read(how):
    """The model is an argument, or is traced outside."""
    model = rbd.load("double_pendulum")
    q, v, tau = samples(model, 6)
    expected = by_xla(lambda *x: rbd.inverse_dynamics(model, *x))(q, v, tau)
    shared = rbd.batch_map(rbd.inverse_dynamics, (None, 0, 0, 0), fused=how)
    assert_same(shared(model, q, v, tau), expected)
    heavier = eqx.tree_at(lambda model: model.inertias.mass, model, 2 * np.asarray(model.inertias.mass))
    assert np.max(np.abs(np.asarray(shared(heavier, q, v, tau)) - np.asarray(expected))) > 0.1
    around = jax.jit(
        lambda model: rbd.batch_map(lambda *x: rbd.inverse_dynamics(model, *x), fused=how)(q, v, tau)
    )
    assert_same(around(model), expected)


def test_a_stretch_of_simulated_batches(how):
    """As in `simulate_batch`: all samples share the model and the number of the first step."""
    model, made = rbd.load("double_pendulum"), rbd.simulate.Stretches("a test", rubs=False)
    q, v, _ = samples(model, 6)
    start = lambda q, v: made.start(model, rbd.State(q, v, jnp.zeros(0)), jnp.asarray(0.01))
    carry, first = by_xla(start)(q, v), jax.device_put(np.int32(4))
    advance = lambda model, first, carry: made.advance(model, carry, first, jnp.asarray(0.01), 300)
    found = rbd.batch_map(advance, (None, None, 0), fused=how)(model, first, carry)
    assert_same(found, by_xla(advance, (None, None, 0))(model, first, carry), 1e-12)


def test_derivatives_are_those_of_the_function(how):
    """Derivatives of the mapped function with respect to batched and shared arguments use custom rules."""

    @jax.custom_jvp
    def own(x):
        return jnp.sin(x)

    own.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 7 * tangents[0]))
    mapped = rbd.batch_map(lambda scale, x, k: own(x) * scale + k.astype(float), (None, 0, 0), fused=how)
    by_scale, by_x = jax.jit(jax.grad(lambda scale, x: jnp.sum(mapped(scale, x, K)), (0, 1)))(3.0, X)
    np.testing.assert_allclose(by_scale, np.sum(np.sin(X)))
    np.testing.assert_allclose(by_x, np.full(X.shape, 21.0))


def twisted(m, x):
    """Combines two entries of a sample with three shared ones."""
    for _ in range(4):
        x = jnp.sin(m[0] * x + x[::-1] * jnp.cos(m[1] * x)) + m[0]
    return x * m[2]


DERIVATIVES = {
    "by the samples": lambda f, m, x: jax.grad(lambda x: jnp.sum(f(m, x) ** 2))(x),
    "by what is shared": lambda f, m, x: jax.grad(lambda m: jnp.sum(f(m, x) ** 2))(m),
    "by both": lambda f, m, x: jax.grad(lambda m, x: jnp.sum(f(m, x) ** 2), (0, 1))(m, x),
    "along": lambda f, m, x: jax.jvp(f, (m, x), (m, jnp.cos(x))),
    "along one": lambda f, m, x: jax.jvp(lambda x: f(m, x), (x,), (jnp.cos(x),)),
    "along and back": lambda f, m, x: jax.grad(
        lambda m: jnp.sum(jax.jvp(lambda x: f(m, x), (x,), (jnp.sin(x),))[1] ** 2)
    )(m),
    "twice": lambda f, m, x: jax.jvp(
        lambda m: jax.grad(lambda m, x: jnp.sum(f(m, x) ** 2), (0, 1))(m, x), (m,), (m,)
    )[1],
    "back twice": lambda f, m, x: jax.grad(
        lambda m: sum(jnp.sum(jnp.sin(y)) for y in jax.grad(lambda m, x: jnp.sum(f(m, x) ** 2), (0, 1))(m, x))
    )(m),
    "of batches": lambda f, m, x: jax.vmap(jax.grad(lambda x: jnp.sum(f(m, x) ** 2)))(jnp.stack([x, 2 * x])),
    "of batches by what is shared": lambda f, m, x: jax.vmap(
        lambda x: jax.grad(lambda m: jnp.sum(f(m, x) ** 2))(m)
    )(jnp.stack([x, 2 * x])),
    "for many that share": lambda f, m, x: jax.vmap(jax.grad(lambda m: jnp.sum(f(m, x) ** 2)))(
        jnp.stack([m, m + 0.1])
    ),
}


@pytest.mark.parametrize(
    "size, derivative",
    [
        pytest.param(
            size,
            derivative,
            id=f"{size}-{name}",
            marks=[pytest.mark.slow] * (name == "back twice" or (size == 32 and name != "by both")),
        )
        for size in (13, 32)
        for name, derivative in DERIVATIVES.items()
    ],
)
def test_derivatives_are_mapped_as_well(size, derivative, monkeypatch):
    """Derivatives in any order, with respect to samples and to shared arguments, over which they are summed."""
    made = []
    kernel = mapped.Kernel
    monkeypatch.setattr(mapped, "Kernel", lambda *program: made.append(program) or kernel(*program))
    given = np.array([1.1, 0.3, -0.7]), np.random.default_rng(8).normal(size=(size, 2))
    found, expected = (
        jax.jit(lambda *args, by=by: derivative(by(twisted, (None, 0)), *args))(*given)
        for by in (rbd.batch_map, jax.vmap)
    )
    assert_same(found, expected, 1e-11)
    assert bool(made) == (jax.default_backend() == "gpu" or foreign.is_available())


def test_derivatives_of_long_loops(monkeypatch):
    """Derivatives are kernels, too: the loop is computed twice, which is faster than storing intermediate values."""
    made = []
    kernel = mapped.Kernel
    monkeypatch.setattr(mapped, "Kernel", lambda *program: made.append(program) or kernel(*program))

    def one(m, x, k):
        y, rows = lax.scan(lambda y, _: (0.9 * jnp.sin(y) + m[:2] * x, y[0]), x, None, length=300)
        return y, rows[::50], k + 1

    x, k = np.random.default_rng(8).normal(size=(13, 2)), np.arange(13)
    loss = lambda mapped: lambda m, x: sum(jnp.sum(y**2) for y in mapped(m, x, k)[:2])
    given = np.array([1.1, 0.3, -0.7]), x
    found = jax.jit(jax.grad(loss(rbd.batch_map(one, (None, 0, 0))), (0, 1)))(*given)
    assert len(made) == 2  # the loop, and the loop that stores; the backward pass is too small for a kernel
    assert_same(found, jax.jit(jax.grad(loss(jax.vmap(one, (None, 0, 0))), (0, 1)))(*given), 1e-12)


def test_sums_in_parts(few):
    """Padding lanes beyond the last sample add nothing."""
    x = np.random.default_rng(8).normal(size=(13, 2))
    loss = lambda mapped: lambda m: jnp.sum(mapped(m, x) ** 2)
    found, expected = (
        jax.jit(jax.grad(loss(by(twisted, (None, 0)))))(np.array([1.1, 0.3, -0.7]))
        for by in (rbd.batch_map, jax.vmap)
    )
    assert_same(found, expected, 1e-12)


@pytest.fixture
def grouped(monkeypatch):
    """Makes kernels with short parts, each of which runs for a group of chunks."""
    for module, name, value in ((machine_code, "LONG", 40), (machine_code, "PART", 15), (groups, "LONG", 40)):
        monkeypatch.setattr(module, name, value)
    made = []
    function = machine_code.function
    monkeypatch.setattr(machine_code, "function", lambda *given: made.append(given[4]) or function(*given))
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 9, 300])
def test_groups_of_chunks(size, dtype, grouped):
    """Results of all layouts, some of them constant: rows, columns, booleans, and sums over the samples."""

    def one(m, x):
        wide = jnp.concatenate(
            [jnp.outer(jnp.sin(x), jnp.cos(m)).ravel(), jnp.ones(40, dtype), jnp.zeros(3, dtype)]
        )
        return jnp.sum(jnp.sin(x[:3]) * m) + jnp.exp(x[0]), wide, x > m[0], twisted(m, x)

    m = np.array([1.1, 0.3, -0.7], dtype)
    x = np.random.default_rng(8).normal(size=(size, 4)).astype(dtype)
    found, expected = (
        jax.jit(by(one, (None, 0)))(m, x) for by in (functools.partial(rbd.batch_map, fused=True), jax.vmap)
    )
    assert grouped[-1] == groups.CHUNKS
    assert_same(found, expected, 1e-12 if dtype == np.float64 else 1e-5)

    def loss(by):
        return lambda m, x: sum(jnp.sum(y**2) for y in by(one, (None, 0))(m, x) if y.dtype == dtype)

    found, expected = (jax.jit(jax.grad(loss(by), (0, 1)))(m, x) for by in (rbd.batch_map, jax.vmap))
    assert_same(found, expected, 1e-12 if dtype == np.float64 else 1e-4)


def test_groups_are_small_enough_for_the_caches():
    """Short programs, and those that store much per chunk, process one chunk at a time."""
    at_once = groups.chunks_at_once
    assert at_once(groups.LONG, 1_000) == 1
    assert at_once(groups.LONG + 1, 1_000) == groups.CHUNKS
    assert at_once(groups.LONG + 1, groups.BYTES // 3) == 3
    assert at_once(groups.LONG + 1, groups.BYTES // 2 + 1) == 1


def test_it_can_be_compiled_and_mapped(how):
    mapped = rbd.batch_map(lambda x: jnp.sin(x) * x[0], fused=how)
    expected = lambda x: np.sin(x) * x[..., :1]
    assert_same(jax.jit(mapped)(X), expected(X))
    twice = np.stack([X, 2 * X, 3 * X])
    assert_same(jax.vmap(mapped)(twice), expected(twice))


def test_what_cannot_be_fused_is_told():
    for function, name in (
        (jnp.sort, "`sort`.* in a way that depends on the sample.*leave fused out"),
        (
            lambda x: jnp.tile(x, 3000).at[jnp.arange(90) + x[0].astype(int)].get(mode="clip"),
            "`gather`.* at indices that depend on the sample, with too many candidates",
        ),
        (
            lambda x: lax.scan(lambda y, row: (y + row, None), x[0], jnp.tile(x, 200))[0],
            "a loop of 800 iterations",
        ),
    ):
        with pytest.raises(ValueError, match=f"batch_map: function .*({name})"):
            rbd.batch_map(function, fused="interpret")(X)


def test_selections_in_searches_are_few():
    """By default: with many entries to select from in each iteration, a kernel is slower."""

    def function(count, x):
        rows = jnp.sin(jnp.outer(jnp.arange(1.0, count + 1), x))
        goes_on = lambda carry: (carry[0] < count) & (carry[1] < 100)
        step = lambda carry: (carry[0] + 1, carry[1] + jnp.sum(rows[carry[0]] * x))
        return lax.while_loop(goes_on, step, (jnp.argmax(x), jnp.sum(x)))[1]

    x = np.random.default_rng(0).normal(size=(9, 40))
    for count in (20, 90):
        explained = str(rbd.explain(functools.partial(function, count), x))
        assert ("would select among 3,600 entries" in explained) == (count == 90)
        assert ("A kernel" in explained) == (count == 20)


def test_too_many_scalars(monkeypatch):
    """By default there is no kernel and no warning; with `fused=True` the message names the operation."""
    monkeypatch.setattr(fusing, "MOST_SCALARS", 50)
    function = lambda x: jnp.sin(jnp.outer(x, x)).sum() + x @ jnp.cos(jnp.outer(x, x)) @ x
    x = np.random.default_rng(0).normal(size=(9, 4))
    with pytest.raises(ValueError, match=r"more than 50 scalars at `\w+` \(.*test_fused.py:\d+\)"):
        rbd.batch_map(function, fused=True)(x)
    assert_same(rbd.batch_map(function)(x), jax.vmap(function)(x))


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_what_is_a_kernel_without_being_asked(platform, monkeypatch):
    """By default, functions with enough arithmetic that are not too long, for CPU and GPU."""
    if platform == "cpu":
        pytest.importorskip("llvmlite")
    monkeypatch.setattr(choice, "is_available", lambda: True)
    model = rbd.load("double_pendulum")

    class Made(BaseException):
        """Raised instead of calling a compiler that needs the device."""

    def made(*program, kernel=mapped.Kernel):
        kernel(*program)
        raise Made

    monkeypatch.setattr(mapped, "Kernel", made)

    def is_kernel(function, *batch):
        batch = (np.tile(x, (3, *[1] * (x.ndim - 1))) for x in batch)
        try:
            jax.jit(rbd.batch_map(function)).trace(*batch).lower(lowering_platforms=(platform,))
        except Made:
            return True
        return False

    dynamics = lambda *x: rbd.forward_dynamics(model, *x)
    assert is_kernel(dynamics, *samples(model, 3))
    assert not is_kernel(lambda x: jnp.sort(jnp.sin(x) * x + x / 3 - x**2 + x * x[0] - x[1] + 1 / x - x), X)
    assert not is_kernel(lambda x: 2 * x, X)
    key = jax.random.key(0)
    assert is_kernel(lambda x: jnp.sum(jnp.tile(jnp.sin(x), 9)), X)
    for function in (  # a device may not compile these, which would be detected too late
        lambda x: jnp.sum(jnp.abs(jnp.tile(jnp.sin(x), 9).astype(complex))),
        lambda x: jnp.sum(jnp.tile(jnp.sin(x), 9).astype(jnp.float16)),
        lambda x: jnp.sum(jnp.tile(jnp.sin(x), 9)) + jax.random.normal(key, (2,)),
    ):
        assert not is_kernel(function, X)
    if platform == "cpu":  # a callback belongs to the process that lowers it
        assert not is_kernel(
            lambda x: jax.debug.callback(lambda: None) or jnp.sum(jnp.tile(jnp.sin(x), 9)), X
        )
    policy = lambda x, weights: jnp.sum(jnp.tanh(weights @ jnp.tile(jnp.sin(x), len(weights.T) // 4)))
    assert is_kernel(lambda x: policy(x, np.ones((100, 64))), X)
    assert not is_kernel(lambda x: policy(x, np.ones((100, 100))), X)
    monkeypatch.setitem(choice.LONGEST, platform, 1000)
    assert not is_kernel(dynamics, *samples(model, 3))


def test_a_kernel_is_made_of_what_is_compiled_alone(monkeypatch):
    """A derivative compiles only its own kernel, and exported functions run on any platform."""
    pytest.importorskip("llvmlite")
    made = []
    kernel = mapped.Kernel
    monkeypatch.setattr(mapped, "Kernel", lambda *program: made.append(program) or kernel(*program))
    model = rbd.load("pendulum")
    x = np.tile(X[:, :1], (3, 1))
    function = lambda x: rbd.forward_dynamics(model, x, x, x)
    in_batches = rbd.batch_map(function)
    jax.jit(in_batches).trace(x)
    assert not made
    jax.jit(jax.grad(lambda x: jnp.sum(in_batches(x))))(x)
    assert len(made) == 1  # the backward pass; only the derivative of the function is needed
    made.clear()
    found = jax.jit(jax.grad(lambda x: jnp.sum(in_batches(x) ** 2)))(x)
    assert len(made) == 2
    assert_same(found, jax.jit(jax.grad(lambda x: jnp.sum(jax.vmap(function)(x) ** 2)))(x))
    made.clear()
    exported = jax.export.export(jax.jit(in_batches))(x)
    assert not made
    assert_same(exported.call(x), by_xla(function)(x))


def test_what_does_something_besides_is_told(how):
    with pytest.raises(ValueError, match="batch_map: function has side effects.*leave fused out"):
        rbd.batch_map(lambda x: (jax.debug.callback(lambda: None), jnp.sin(x))[1], fused=how)(X)


def test_what_fused_is_not(unchecked):
    with pytest.raises(ValueError, match="fused is 'yes'"):
        rbd.batch_map(jnp.sin, fused="yes")  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif("jax.default_backend() == 'gpu'")
def test_without_a_compiler_it_is_refused(monkeypatch):
    monkeypatch.setattr(faults, "_checked", lambda platform: "llvmlite is not installed")
    with pytest.raises(
        ValueError, match="batch_map: there are no fused kernels: llvmlite is not .*; leave fused out"
    ):
        rbd.batch_map(jnp.sin, fused=True)(X)


def test_over_several_devices(how):
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
    mapped = rbd.shard(lambda q: jnp.sin(q) * q[0], mesh=mesh, fused=how)
    assert_same(mapped(X), np.sin(X) * X[:, :1])


# Instructions.


def everything(x, y):
    for _ in range(3):  # many live values
        powers = [x * y + number for number in range(4)]
        x = x + 1e-3 * sum(a * b for a, b in zip(powers, reversed(powers)))
    y = y + 1e-3 * (jnp.floor(4 * x) + jnp.ceil(4 * y) + jnp.round(4 * x + 0.5))
    inside = (x < y) & jnp.isfinite(x) | ~(x >= 0.5) | (x == y)
    other = jnp.where((x != x) | (y <= 0) | (y > 3), -x / y, jnp.sqrt(jnp.abs(x)) - 1.5)
    return jnp.where(inside, jnp.maximum(x, y) * 2 + jnp.minimum(y, 1), other), inside


def in_a_loop(x, y):
    step = lambda carry, row: ((0.9 * carry[1], 0.9 * carry[0] - row * x, 0.5 * carry[2] + y), carry[0] * row)
    return lax.scan(step, (x, y, x * y), np.linspace(-0.1, 0.1, 300, dtype=x.dtype))


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("function", [everything, in_a_loop])
def test_registers_of_threads(function, dtype, few, monkeypatch):
    """With NaN among the values, with registers for all values, and with few, so that most are spilled."""
    if few:  # space for four values
        monkeypatch.setattr(registers, "REGISTERS", np.dtype(dtype).itemsize)
    planned = []
    monkeypatch.setattr(threads, "plan", lambda *given: planned.append(registers.plan(*given)) or planned[-1])
    x, y = (np.random.default_rng(seed).normal(size=200).astype(dtype) for seed in (4, 5))
    x[:2], y[1:3], x[3], x[4:9] = np.nan, np.nan, np.inf, y[4:9]
    found = rbd.batch_map(function, fused="interpret")(x, y)
    assert_same(found, by_xla(function)(x, y), 1e-5 if dtype == jnp.float32 else 1e-13)
    assert few == any(map(registers.moves, planned))


FUNCTIONS_OF_NUMBERS = [
    jnp.exp, jnp.log, jnp.sin, jnp.cos, jnp.tan, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.sinh, jnp.cosh, jnp.tanh, jnp.arcsinh,
    jnp.arctanh, jnp.cbrt, jnp.log1p, jnp.expm1, jnp.sqrt, jnp.abs, jnp.sign, jnp.square, lax.rsqrt, jnp.isfinite,
]  # fmt: skip


def kernel_for_a_gpu(function, *batch):
    """Returns the PTX code and the number of arrays of its operation; None if there is no kernel."""
    mapped = jax.jit(rbd.batch_map(function, fused=True)).trace(*batch)
    program = mapped.lower(lowering_platforms=("cuda",)).as_text()
    kernels = re.findall(r'kernel_data = "((?:[^"\\]|\\.)*)"', program)
    if not kernels:
        return None
    (call,) = re.findall(r"stablehlo.custom_call @__gpu\$xla.gpu.ptx.*", program)
    (types,) = re.findall(r" : \(.*?\) -> .*$", call)
    return kernels[0], types.count("tensor<")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "rows of rows"])
def test_kernels_for_a_device_that_is_not_here(name):
    """Compiled as far as this machine allows, with one parameter per array."""
    pytest.importorskip("llvmlite")
    function, batch = FUNCTIONS[name]
    found = kernel_for_a_gpu(function, *batch)
    assert (found is None) == (name == "what is the same for all")
    if found is not None:
        kernel, arrays = found
        assert kernel.count(".param .u64 .ptr .global .align 16") == arrays
        assert ".visible .entry" in kernel and ".maxntid 32" in kernel
        assert f".target {threads.DEVICE}" in kernel


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_operations_of_gpus(dtype):
    """Each operation compiles to instructions, without calls of external functions."""
    pytest.importorskip("llvmlite")
    all_of_them = lambda x: [function(x) for function in FUNCTIONS_OF_NUMBERS]
    found = kernel_for_a_gpu(all_of_them, np.ones(40, dtype))
    assert found is not None
    assert re.findall(r"\.extern .*", found[0]) == []


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_operations_of_processors(dtype):
    """With NaN and infinities, integers of each type, and bit casts."""
    pytest.importorskip("llvmlite")
    x, y = (np.random.default_rng(seed).normal(size=67).astype(dtype) for seed in (4, 5))
    x[:2], y[1:3], x[3], x[4:9] = np.nan, np.nan, np.inf, y[4:9]
    k = np.random.default_rng(6).integers(-50, 50, 67).astype(np.int32)

    def whole(x, k):
        wide = k.astype(np.int64)
        kinds = (
            wide * 3 - k.astype(wide.dtype),
            -k,
            jnp.maximum(k, 2),
            jnp.clip(k, -5, 7),
            k // 7,
            k % 7,
            wide.astype(np.int32),
            (wide & 6) ^ (wide | 1),
        )
        return (
            kinds,
            k > 3,
            (k > 3).astype(dtype),
            k.astype(dtype) * x,
            jnp.clip(x, -0.5, 0.5),
            (x * 4e9).astype(np.int32),
        )

    for function, batch in (
        (everything, (x, y)),
        (lambda x: [f(jnp.abs(x) / 9) for f in FUNCTIONS_OF_NUMBERS], (x[4:],)),
        (lambda x, y: (jnp.arctan2(x, y), jnp.power(jnp.abs(x), y)), (x, y)),
        (whole, (x, k)),
    ):
        found, expected = rbd.batch_map(function, fused=True)(*batch), by_xla(function)(*batch)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5 if dtype == jnp.float32 else 1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts_of_long_programs(name, few):
    function, batch = FUNCTIONS[name]
    assert_same(rbd.batch_map(function, fused=True)(*batch), mapped_by_jax(name))


def test_parts_hand_on_numbers_of_any_width(few):
    """In single precision there are twice as many lanes, and vectors of wide numbers are twice the register size."""

    def narrow(x, k):
        wide = [(k + i).astype(np.int64) * 3 for i in range(12)]
        for one in wide:
            x = jnp.sin(x) + (one % 7).astype(np.float32)
        total = sum(a * b for a, b in zip(wide, reversed(wide)))
        return x, (total % 1000).astype(np.int32)

    x, k = np.linspace(0, 1, 37, dtype=np.float32), np.arange(37, dtype=np.int32)
    assert_same(rbd.batch_map(narrow, fused=True)(x, k), by_xla(narrow)(x, k), 1e-6)


@pytest.mark.parametrize(
    "operation", [pytest.param(name, marks=[pytest.mark.slow] * (name == "vjp")) for name in OPERATIONS]
)
def test_dynamics_in_parts(operation, few, monkeypatch):
    monkeypatch.setattr(machine_code, "PART", 40)
    check("double_pendulum", operation, 13, True)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17])
def test_chunks_of_any_length(count):
    """Padding lanes beyond the last sample have no effect, in rows and in columns."""
    pytest.importorskip("llvmlite")
    x = np.random.default_rng(7).normal(size=(count, 4))
    assert_same(rbd.batch_map(many, fused=True)(x), by_xla(many)(x))


def test_what_processors_have_not_is_told():
    pytest.importorskip("llvmlite")
    with pytest.raises(ValueError, match="fused: function computes with int8 .*leave fused out"):
        rbd.batch_map(lambda x: x.astype(np.int8) + x[0].astype(np.int8), fused=True)(X)
