class Module:
    def __init__(self):
        self.state = {}

    def __call__(self, *inputs, **named):
        return self.forward(*inputs, **named)

    def parameters(self):
        return []

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Linear(Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.state = {"shape": (inputs, outputs)}

    def forward(self, values):
        return values
