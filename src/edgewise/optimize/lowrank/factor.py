"""Weights as products of smaller ones, such that what comes out of the layer changes least.

W x is to be U (V x). With S = E[x xᵀ] (S = C Cᵀ), the error E|Wx - UVx|² is that of W C as a matrix, so its largest
singular vectors are best: U has the eigenvectors of W S Wᵀ and V = Uᵀ W. Without S the weights themselves are kept as
well as can be (S = 1). Other forms first make fewer inputs, A x, along some of the weight's axes; with A chosen, the
best weights on A x are a least-squares fit, in which all of S counts.
"""

from __future__ import annotations

import numpy as np

from ...model.graph import Array

_SWEEPS = 4


def answered(weight: Array, spread: Array | None) -> Array:
    """How the outputs vary together: W S Wᵀ of weights [made, inputs]."""
    return np.asarray(weight @ weight.T if spread is None else weight @ spread @ weight.T)


def outer(answers: Array) -> tuple[Array, Array]:
    """Directions of the outputs (columns, most telling first), and the share of the error that is left when the first
    0, 1, 2 ... of them are kept."""
    energies, directions = np.linalg.eigh((answers + answers.T) / 2)
    return directions[:, ::-1], _left(energies[::-1])


def inner(weight: Array, spread: Array | None, split: int) -> tuple[Array, Array]:
    """The same for the inputs, as the coordinates (rows) to be made of them. Of each input's axes, `split` numbers
    make up those that stay as they are: weights [made, inputs] are [made, mixed, split]."""
    folded, unit = _whitened(weight, spread, split)
    energies, directions = np.linalg.eigh(np.einsum("oas,obs->ab", folded, folded, optimize=True))
    return _coordinates(directions[:, ::-1], unit), _left(energies[::-1])


def svd(weight: Array, answers: Array, rank: int) -> tuple[Array, Array]:
    """Weights [made, inputs] as [made, rank] after [rank, inputs]."""
    directions = outer(answers)[0][:, :rank]
    return directions.T @ weight, directions


def separable(weight: Array, spread: Array | None, split: int, rank: int) -> tuple[Array, Array]:
    """Weights [made, mixed · split] as [made, rank, split] after [rank, mixed]."""
    coordinates = inner(weight, spread, split)[0][:rank]
    coordinates = _orthogonal(coordinates)
    fit, _ = _fitted(weight, spread, split, coordinates)
    return coordinates, fit.reshape(len(weight), rank, split)


def tucker(weight: Array, spread: Array | None, split: int, ranks: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Weights [made, mixed · split] as [made, ranks[1]] after [ranks[1], ranks[0], split] after [ranks[0], mixed].

    Directions of inputs and of outputs are found by turns, each best for the other; the middle is fitted last.
    """
    folded, unit = _whitened(weight, spread, split)
    taken = _largest(np.einsum("oas,obs->ab", folded, folded, optimize=True), ranks[0])
    for _ in range(_SWEEPS):
        fewer = np.tensordot(folded, taken, (1, 0))
        made = _largest(np.tensordot(fewer, fewer, ((1, 2), (1, 2))), ranks[1])
        fewer = np.tensordot(made, folded, (0, 0))
        taken = _largest(np.einsum("oas,obs->ab", fewer, fewer, optimize=True), ranks[0])
    coordinates = _orthogonal(_coordinates(taken, unit))
    fit, spread = _fitted(weight, spread, split, coordinates)
    middle, last = svd(fit, answered(fit, spread), ranks[1])
    return coordinates, middle.reshape(ranks[1], ranks[0], split), last


def _left(energies: Array) -> Array:
    kept = np.concatenate([[0.0], np.cumsum(np.maximum(energies, 0))])
    return np.asarray(1 - kept / max(kept[-1], np.finfo(float).tiny))


def _largest(matrix: Array, count: int) -> Array:
    directions: Array = np.linalg.eigh(matrix)[1][:, ::-1]
    return directions[:, :count]


def _whitened(weight: Array, spread: Array | None, split: int) -> tuple[Array, Array | None]:
    """The weights on inputs that vary alike in all directions, apart from those along the axes that stay."""
    folded = weight.reshape(len(weight), -1, split)
    if spread is None:
        return folded, None
    mixed = folded.shape[1]
    unit = np.linalg.cholesky(np.einsum("asbs->ab", spread.reshape(mixed, split, mixed, split)) / split)
    return np.einsum("oas,ab->obs", folded, unit, optimize=True), unit


def _coordinates(directions: Array, unit: Array | None) -> Array:
    return np.asarray(directions.T if unit is None else np.linalg.solve(unit.T, directions).T)


def _orthogonal(coordinates: Array) -> Array:
    """Others of the same space, of unit length: as large as the inputs, which half precision and 8 bits need."""
    return np.asarray(np.linalg.qr(coordinates.T)[0].T)


def _fitted(weight: Array, spread: Array | None, split: int, coordinates: Array) -> tuple[Array, Array | None]:
    """The weights on the coordinates that come closest, and how these vary together."""
    count, mixed = coordinates.shape

    def projected(matrix: Array) -> Array:
        folded = np.tensordot(matrix.reshape(-1, mixed, split), coordinates, (1, 1))
        return np.asarray(folded.transpose(0, 2, 1).reshape(len(matrix), count * split))

    if spread is None:
        return projected(weight), None
    half = projected(spread)
    whole = projected(half.T).T
    whole = (whole + whole.T) / 2
    return np.asarray(np.linalg.solve(whole, (weight @ half).T).T), whole
