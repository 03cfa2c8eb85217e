"""The two traversals of a tree: both implementations equal a plain recursion, also in their derivatives."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax.model.tree import Tree


def random_parents(seed, size, roots=1):
    rng = np.random.default_rng(seed)
    return [-1 if node < roots else int(rng.integers(-1 if roots > 1 else 0, node)) for node in range(size)]


TREES = {
    "empty": [],
    "one node": [-1],
    "chain": [-1, 0, 1, 2, 3, 4],
    "star": [-1, 0, 0, 0, 0, 0],
    "roots alone": [-1, -1, -1],
    "numbered across the levels": [-1, 0, 1, 0, 3, 2, -1, 6, 4],
    "random": random_parents(0, 11),
    "random, deep": [-1, *[max(0, node - 2) for node in range(1, 12)]],
    "forest": random_parents(1, 12, roots=3),
}

#: The other trees reduce to these cases.
EVERY_DAY = ("empty", "numbered across the levels", "forest")
each_tree = pytest.mark.parametrize(
    "parents",
    [
        pytest.param(parents, id=name, marks=() if name in EVERY_DAY else pytest.mark.slow)
        for name, parents in TREES.items()
    ],
)
each_walk = pytest.mark.parametrize("traversal", ["scan", "levels"])


def down_step(parent, own):
    """Nonlinear and of two arrays, so that exchanged nodes or arguments change the result."""
    value = {"x": jnp.sin(parent["x"]) + own["a"], "y": parent["y"] * own["b"]}
    return value, parent["x"] * own["b"]


def up_step(children, own):
    value = {"x": jnp.tanh(children["x"]) + own["a"], "y": children["y"] + own["b"]}
    return value, children["x"] * own["b"]


def inputs(size, seed=0):
    rng = np.random.default_rng(seed)
    return {"a": rng.normal(size=(size, 2)), "b": rng.normal(size=size)[:, None]}


ROOT = {"x": np.array([0.3, -0.2]), "y": np.array([1.5])}
LEAF = {"x": np.zeros(2), "y": np.zeros(1)}


def rows(tree, size):
    return [jax.tree.map(lambda leaf, node=node: leaf[node], tree) for node in range(size)]


def recursive_down(parents, root, own):
    values, outputs = [], []
    for parent, x in zip(parents, rows(own, len(parents)), strict=True):
        value, output = down_step(values[parent] if parent >= 0 else root, x)
        values.append(value)
        outputs.append(output)
    return values, outputs


def recursive_up(parents, own):
    size = len(parents)
    sums = [LEAF] * (size + 1)  # the last entry, also index -1, collects the roots
    outputs = [None] * size
    for node in reversed(range(size)):
        value, outputs[node] = up_step(sums[node], rows(own, size)[node])
        sums[parents[node]] = jax.tree.map(np.add, sums[parents[node]], value)
    return sums[-1], outputs


def assert_rows(stacked, expected):
    stacked = jax.tree.map(np.asarray, stacked)
    for node, row in enumerate(expected):
        jax.tree.map(lambda a, b, node=node: np.testing.assert_allclose(a[node], b, atol=1e-12), stacked, row)


@each_walk
@each_tree
def test_down_is_the_recursion(parents, traversal):
    own = inputs(len(parents))
    values, outputs = jax.jit(lambda *x: Tree(parents, traversal).down(down_step, *x))(ROOT, own)
    assert values["x"].shape == (len(parents), 2) and outputs.shape == (len(parents), 2)
    expected_values, expected_outputs = recursive_down(parents, ROOT, own)
    assert_rows(values, expected_values)
    assert_rows(outputs, expected_outputs)


@each_walk
@each_tree
def test_up_is_the_recursion(parents, traversal):
    own = inputs(len(parents))
    total, outputs = jax.jit(lambda *x: Tree(parents, traversal).up(up_step, *x))(LEAF, own)
    assert outputs.shape == (len(parents), 2)
    expected_total, expected_outputs = recursive_up(parents, own)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), total, expected_total)
    assert_rows(outputs, expected_outputs)


@pytest.mark.parametrize("traversal", ["scan", "levels", "doubling"])
@each_tree
def test_sums_are_products_with_the_ancestor_mask(parents, traversal):
    tree = Tree(parents, traversal)
    x = inputs(len(parents))
    above, below = jax.jit(lambda x: (tree.path_sum(x), tree.subtree_sum(x)))(x)
    mask = tree.supports.astype(float)
    for key, leaf in x.items():
        np.testing.assert_allclose(above[key], mask @ np.asarray(leaf), atol=1e-12)
        np.testing.assert_allclose(below[key], mask.T @ np.asarray(leaf), atol=1e-12)


@pytest.mark.parametrize("traversal", ["scan", "levels", "doubling"])
@each_tree
def test_compositions_along_paths(parents, traversal):
    """Compositions of matrices, which do not commute: factors of ancestors come first."""
    x = np.random.default_rng(0).normal(size=(len(parents), 2, 2))
    found = jax.jit(lambda x: Tree(parents, traversal).path_composition(jnp.matmul, jnp.eye(2), x))(x)
    expected = []
    for parent, own in zip(parents, x, strict=True):
        expected.append(expected[parent] @ own if parent >= 0 else own)
    assert_rows(found, expected)


def test_sums_by_doubling_have_the_same_gradients():
    parents, own = TREES["forest"], inputs(12)

    def loss(traversal):
        def of(own):
            tree = Tree(parents, traversal)
            return jnp.sum(jnp.sin(tree.path_sum(own)["a"])) + jnp.sum(jnp.sin(tree.subtree_sum(own)["b"]))

        return jax.jit(jax.grad(of))(own)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), loss("doubling"), loss("scan"))


def test_sums_by_doubling_take_logarithmically_many_steps():
    """A chain of 1000 has at most three times the sequential steps of one of 31, and no loops."""

    def steps(size, name):
        text = str(jax.make_jaxpr(getattr(Tree(range(-1, size - 1), "doubling"), name))(jnp.ones((size, 1))))
        assert "scan[" not in text and "while[" not in text
        return len(re.findall(r":f\d+\[[^]]*\] = add ", text))  # additions of floats, not of indices

    for name in ("path_sum", "subtree_sum"):
        assert 5 <= steps(31, name) <= steps(1000, name) <= 3 * steps(31, name)


@each_tree
def test_supports_is_every_node_on_the_way_to_the_root(parents):
    """Book §4.1.4."""
    expected = np.zeros((len(parents), len(parents)), bool)
    for node in range(len(parents)):
        above = node
        while above >= 0:
            expected[node, above] = True
            above = parents[above]
    tree = Tree(parents)
    np.testing.assert_array_equal(tree.supports, expected)
    np.testing.assert_array_equal(tree.depths, expected.sum(axis=1) - 1)
    np.testing.assert_array_equal(tree.roots, [row.argmax() for row in expected])


@pytest.mark.parametrize(
    "name",
    ["forest", *(pytest.param(x, marks=pytest.mark.slow) for x in ("chain", "numbered across the levels"))],
)
def test_both_walks_have_the_same_gradients(name):
    parents = TREES[name]

    def loss(traversal):
        def of(root, own):
            tree = Tree(parents, traversal)
            values, outputs = tree.down(down_step, root, own)
            total, _ = tree.up(up_step, LEAF, {"a": values["x"], "b": own["b"]})
            return jnp.sum(outputs**2) + jnp.sum(total["x"]) + jnp.sum(total["y"] ** 2) + jnp.sum(values["y"])

        return of

    own = inputs(len(parents))
    by_scan = jax.jit(jax.grad(loss("scan"), (0, 1)))(ROOT, own)
    by_level = jax.jit(jax.grad(loss("levels"), (0, 1)))(ROOT, own)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), by_scan, by_level)
    # One derivative by finite differences, in case both are wrong in the same way.
    step = 1e-6
    change = step * (np.indices(own["a"].shape).sum(axis=0) == 0)
    moved = [jax.jit(loss("scan"))(ROOT, own | {"a": own["a"] + sign * change}) for sign in (1, -1)]
    np.testing.assert_allclose(by_scan[1]["a"][0, 0], (moved[0] - moved[1]) / (2 * step), rtol=1e-6)


def test_expanded_is_the_books_table():
    """Book table 6.4."""
    parents = (0, 1, 1, 2, 2, 3)  # the book's numbering: bodies start at 1, the root is 0
    expanded = Tree([parent - 1 for parent in parents], "levels").expanded([1, 3, 1, 1, 1, 1])
    assert tuple(parent + 1 for parent in expanded.parents) == (0, 1, 2, 3, 1, 4, 4, 5)
    assert expanded.traversal == "levels"


def test_trees_are_equal_by_content():
    assert Tree([-1, 0]) == Tree((-1, 0)) and hash(Tree([-1, 0])) == hash(Tree((-1, 0)))
    assert Tree([-1, 0]) != Tree([-1, -1]) and Tree([-1, 0], "scan") != Tree([-1, 0], "levels")


@pytest.mark.parametrize("parents", [[0], [-1, 1], [-1, 2, 0], [-2]], ids=str)
def test_a_parent_that_comes_later_is_refused(parents):
    with pytest.raises(ValueError, match="a parent must come before its children"):
        Tree(parents)


def test_rows_of_the_way_down_are_used_again():
    """A row is reused after its last child: two hundred links, each on one of the five before it, need a few rows."""
    rng = np.random.default_rng(0)
    parents = [int(rng.integers(max(-1, i - 5), i)) for i in range(200)]
    rows, parent_rows = Tree(parents)._rows_above
    assert max(rows.max(), parent_rows.max()) <= 8


def test_generations():
    """Ancestors by number of generations; missing ancestors are the number of nodes."""
    tree = Tree([-1, 0, 1, 0])
    np.testing.assert_array_equal(tree.generations, [[0, 1, 2, 3], [4, 0, 1, 0], [4, 4, 0, 4]])
    assert Tree([]).generations.shape[1] == 0
