from .nn import Module


class SGD(Module):
    def __init__(self, parameters, lr):
        super().__init__()
        self.state = {"lr": lr, "steps": 0}

    def zero_grad(self):
        pass

    def step(self):
        self.state["steps"] += 1
