"""p4jet.place: which functions run on which devices.

    from p4jet.place import State, embed, load_inputs, make_cloud, make_workload

    inputs = load_inputs("exp4")
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    state = State(cloud, workload)
    answer = embed(state, workload.chains[0])
    if answer.embedding is not None:
        state.place(workload.chains[0], answer.embedding)

The command is `p4jet-place`. docs/place.md has the models, the file formats and the limits.
"""

from .errors import PlaceError
from .exact import Answer, embed
from .files import load_cloud, load_plan, load_profile, load_workload, save_cloud, save_plan, save_workload
from .generate import load_inputs, make_cloud, make_workload
from .model import Chain, Cloud, DeviceType, Embedding, Function, Plan, Workload
from .state import State

__all__ = [
    "Answer", "Chain", "Cloud", "DeviceType", "Embedding", "Function", "Plan", "PlaceError", "State", "Workload", "embed", "load_cloud",
    "load_inputs", "load_plan", "load_profile", "load_workload", "make_cloud", "make_workload", "save_cloud", "save_plan", "save_workload",
]  # fmt: skip
