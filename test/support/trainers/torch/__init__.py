"""A stand-in for PyTorch, with as much of it as the recipes use: nothing is learnt, everything is saved and loaded."""

import pickle

from . import distributed, nn, optim, pace, utils


class Tensor:
    def __init__(self, values):
        self.values = values

    def pow(self, _):
        return self

    def mean(self):
        return self

    def backward(self):
        pace.step()

    def item(self):
        return self.values[0]


def tensor(values):
    return Tensor(list(values))


def randn(*shape):
    return Tensor([0.0] * shape[0])


def save(state, path):
    with open(path, "wb") as file:
        pickle.dump(state, file)


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)
