"""A stand-in for a pandas DataFrame: columns by name, and an index."""

import numpy as np


class Index:
    """Times of the rows, with a name."""

    def __init__(self, values, name="time"):
        self.values, self.name = values, name

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


class Table:
    def __init__(self, columns, times=None):
        self.columns, self._data = list(columns), columns
        if times is not None:
            self.index = Index(times)

    def keys(self):
        return self.columns

    def __getitem__(self, name):
        return self._data[name]

    def to_numpy(self):
        return np.stack(list(self._data.values()), axis=1)
