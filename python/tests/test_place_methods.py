"""The methods of p4jet.place against each other, brute force and the checker. Needs no root."""

import dataclasses
import itertools
import random
from collections import Counter
from pathlib import Path

import networkx
import pytest

from p4jet.place import Chain, Cloud, Embedding, Plan, PlaceError, State, Workload, check, embed, load_inputs, make_cloud, make_workload
from p4jet.place import greedy, sfc, vnf
from p4jet.place.agnostic import by_program, embed_by_trials
from p4jet.place.heuristic import embed_quickly
from p4jet.place.model import Device, FixedSwitch, Instance, Link
from p4jet.place.online import admit, improve, improve_exactly, plan_of, run
from p4jet.place.together import embed_together
from place_clouds import FUNCTIONS, TYPES, random_chain, random_cloud

CLOUDS = 20
"""Random clouds for each comparison; more were run before."""


def fill(cloud: Cloud, rng: random.Random, chains: int) -> tuple[State, Workload]:
    """Returns a cloud in which chains have come and gone."""
    workload = Workload("random", FUNCTIONS, ("L2Fwd",))
    state = State(cloud, workload)
    for number in range(chains):
        chain = random_chain(rng, number)
        workload.chains.append(chain)
        answer = embed(state, chain)
        if answer.embedding is not None:
            state.place(chain, answer.embedding)
        if state.chains and rng.random() < 0.25:
            state.remove(rng.choice(list(state.chains)))
    return state, workload


@pytest.mark.parametrize("seed", range(CLOUDS))
def test_the_exact_method_finds_the_power_of_the_integer_program(seed: int) -> None:
    rng = random.Random(seed)
    cloud = random_cloud(rng)
    state, workload = fill(cloud, rng, rng.randint(0, 15))
    for number in range(100, 104):
        chain = random_chain(rng, number)
        answer = embed(state, chain)
        result = sfc.Program(state, [chain]).solve(seconds=30)
        assert answer.is_proven and result.is_proven
        assert (answer.embedding is None) == (not result.embeddings)
        if answer.embedding is not None:
            assert answer.power_w == pytest.approx(result.power_w, abs=1e-4)
            assert state.obstacle(chain, result.embeddings[chain.name]) is None
            before = state.power_w
            state.place(chain, answer.embedding)
            workload.chains.append(chain)
            assert state.power_w - before == pytest.approx(answer.power_w)
    plan = state.plan("random", "exact")
    assert check.violations(cloud, workload, plan) == []
    assert check.power_w(cloud, plan) == pytest.approx(state.power_w)


def brute_force(cloud: Cloud, workload: Workload, plan: Plan, chain: Chain) -> float | None:
    """Returns the least additional power for a chain, from all placements and all routes, judged by the checker."""
    graph = networkx.Graph([(link.one, link.other) for link in cloud.links])
    graph.add_nodes_from([*cloud.devices, *cloud.switches])
    with_chain = Workload("w", workload.functions, workload.obligatory, chains=[*workload.chains, chain])
    before, best = check.power_w(cloud, plan), None
    for devices in itertools.product(cloud.devices, repeat=len(chain.functions)):
        choices = [
            [[one]] if one == other else list(networkx.all_simple_paths(graph, one, other)) for one, other in itertools.pairwise(devices)
        ]
        for routes in itertools.product(*choices):
            other = Plan("c", "w", "b", {**plan.chains, chain.name: Embedding(devices, tuple(map(tuple, routes)))})
            power = check.power_w(cloud, other) - before
            if (best is None or power < best - 1e-9) and not check.violations(cloud, with_chain, other):
                best = power
    return best


@pytest.mark.parametrize("seed", range(CLOUDS))
def test_the_exact_method_finds_the_power_of_brute_force(seed: int) -> None:
    rng = random.Random(1000 + seed)
    cloud = random_cloud(rng, racks_max=2, servers_max=1)
    state, workload = fill(cloud, rng, rng.randint(0, 6))
    for number in range(100, 103):
        chain = random_chain(rng, number, length_max=3)
        answer = embed(state, chain)
        expected = brute_force(cloud, workload, state.plan("w", "x"), chain)
        assert (answer.embedding is None) == (expected is None)
        if expected is not None:
            assert answer.power_w == pytest.approx(expected)


def test_the_strict_search_is_needed_and_right() -> None:
    """Two functions that only fit on different devices, although each fits on either."""
    cloud = Cloud("pair", TYPES)
    cloud.devices = {name: Device(name, "fpga") for name in ("a", "b")}
    cloud.switches = {"s": FixedSwitch("s", 1.0)}
    cloud.links = [Link("a", "s", 10), Link("b", "s", 10)]
    workload = Workload("w", FUNCTIONS, ("L2Fwd",))
    state = State(cloud, workload)
    # SipHash of an FPGA carries 4.2 Gbit/s.
    chain = Chain("c", ("LB", "FW", "LB"), 3, 100)
    answer = embed(state, chain)
    assert answer.step == "strict labels" and answer.is_proven
    assert answer.embedding is not None and len(set(answer.embedding.devices)) == 2 and answer.power_w == 368
    none = embed(state, Chain("d", ("LB", "LB", "LB"), 3, 100))
    assert none.embedding is None and none.is_proven


def test_a_chain_of_10_00_us_meets_a_bound_of_10_us() -> None:
    cloud = Cloud("one", TYPES, {"npu": Device("npu", "npu")})
    state = State(cloud, Workload("w", FUNCTIONS, ("L2Fwd",)))
    functions = ("FW", "NAT", "L3Fwd")
    for bound, fits in ((10, True), (9.9999, False)):
        chain = Chain("c", functions, 1, bound)
        assert (embed(state, chain).embedding is not None) is fits
        assert bool(sfc.Program(state, [chain]).solve(seconds=10).embeddings) is fits
        workload = Workload("w", FUNCTIONS, ("L2Fwd",), chains=[chain])
        plan = Plan("one", "w", "x", {"c": Embedding(("npu",) * 3, (("npu",),) * 2)})
        assert (check.violations(cloud, workload, plan) == []) is fits


def test_interchangeable_devices_are_in_one_class() -> None:
    inputs = load_inputs("exp4").changed(cloud={"racks": 30, "arity": 8})
    cloud, workload = make_cloud(inputs), make_workload(inputs.changed(workload={"chains": 300}))
    state = State(cloud, workload)
    assert len(state.classes) == 4 and len(cloud.devices) == 2430
    log = run(state, workload)
    assert log.is_proven and not log.rejected and len(state.classes) < 40
    # The classes are as if they had been computed at once.
    again = State(cloud, workload)
    for chain, embedding in state.chains.values():
        again.place(chain, embedding)
    assert sorted(map(len, state.classes.values())) == sorted(map(len, again.classes.values()))
    assert sorted(map(len, state.rack_classes.values())) == sorted(map(len, again.rack_classes.values()))
    for name in list(state.chains):
        state.remove(name)
    assert state.power_w == 0 and len(state.classes) == 4 and not any(state.installed)


def test_thirty_racks_take_less_than_a_second() -> None:
    inputs = load_inputs("exp4").changed(cloud={"racks": 30, "arity": 8}, workload={"chains": 900})
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    log = run(State(cloud, workload), workload)
    assert log.is_proven and max(log.seconds) < 1.0
    quick = run(State(cloud, workload), workload, embed_quickly, method="heuristic")
    assert quick.functions >= 0.95 * log.functions
    # On average: the machine of a test may be busy.
    assert sum(quick.seconds) / len(quick.seconds) < 0.01


# The checker.


def small() -> tuple[Cloud, Workload, Plan]:
    cloud = Cloud("small", TYPES)
    cloud.devices = {name: Device(name, kind) for name, kind in (("cpu", "cpu"), ("npu", "npu"), ("asic", "asic"))}
    cloud.switches = {"s": FixedSwitch("s", 1.0)}
    cloud.links = [Link("cpu", "s", 10), Link("npu", "s", 10), Link("asic", "s", 10), Link("cpu", "npu", 10)]
    workload = Workload("w", FUNCTIONS, ("L2Fwd",), chains=[Chain("c", ("FW", "LB"), 2, 1000)])
    return cloud, workload, Plan("small", "w", "x", {"c": Embedding(("cpu", "npu"), (("cpu", "s", "npu"),))})


def test_the_delay_of_a_split_chain() -> None:
    cloud, workload, plan = small()
    assert check.violations(cloud, workload, plan) == []
    # CPU 45.9, FW 0, L2Fwd 0, the switch 1, NPU 7.45, LB 40.22.
    delay = check.delay_us(cloud, workload, workload.chains[0], plan.chains["c"])
    assert delay == pytest.approx(45.9 + 1 + 7.45 + 40.22)
    state = State(cloud, workload)
    assert state.delay_us(workload.chains[0], plan.chains["c"]) == pytest.approx(delay)


@pytest.mark.parametrize(
    ("equation", "embedding", "changes"),
    [
        ("5.6", Embedding(("cpu",), ()), {}),
        ("5.6", Embedding(("cpu", "s"), (("cpu", "s"),)), {}),
        ("5.9", None, {"architectures": frozenset()}),
        ("5.10", None, {"externs": {}}),
        ("5.11", None, {"constructs": 3}),
        ("5.12", None, {"entries": 0}),
        ("5.14", None, {"rate": 8}),
        ("5.26", None, {"rate": 9.5}),
        ("5.27", Embedding(("npu", "cpu"), (("npu", "s", "cpu"),)), {"rate": 9.5}),
        ("5.28", Embedding(("cpu", "npu"), (("cpu", "asic", "npu"),)), {}),
        ("5.28", Embedding(("cpu", "npu"), (("cpu", "s"),)), {}),
        ("5.28", Embedding(("cpu", "npu"), ()), {}),
        ("5.29", Embedding(("cpu", "npu"), (("cpu", "s", "cpu", "npu"),)), {}),
        ("5.30", None, {"rate": 10.5}),
        ("5.31", None, {"delay": 94}),
    ],
)
def test_the_checker_finds_each_fault(equation: str, embedding: Embedding | None, changes: dict[str, object]) -> None:
    cloud, workload, plan = small()
    chain = workload.chains[0]
    if "rate" in changes:
        workload.chains[0] = dataclasses.replace(chain, rate_gbps=changes.pop("rate"))
    elif "delay" in changes:
        workload.chains[0] = dataclasses.replace(chain, delay_us=changes.pop("delay"))
    if changes:
        cloud.types = {name: dataclasses.replace(kind, **changes) if name == "npu" else kind for name, kind in TYPES.items()}
    if embedding is not None:
        plan.chains["c"] = embedding
    found = check.violations(cloud, workload, plan)
    assert equation in {violation.equation for violation in found}, found
    assert all("found" in str(violation) and "expected" in str(violation) for violation in found)


def test_the_state_refuses_what_does_not_fit() -> None:
    cloud, workload, plan = small()
    state = State(cloud, workload)
    chain = Chain("c", ("FW", "LB"), 8, 1000)
    with pytest.raises(PlaceError, match="siphash24 of npu has 7.6 Gbit/s left"):
        state.place(chain, plan.chains["c"])
    with pytest.raises(PlaceError, match="the delay is 94.570 µs, the bound 90 µs"):
        state.place(Chain("c", ("FW", "LB"), 1, 90), plan.chains["c"])
    with pytest.raises(PlaceError, match="expected a chain in the cloud"):
        state.remove("c")
    assert not state.chains and state.power_w == 0


# Programs.


def test_why_there_is_no_embedding(tmp_path: Path) -> None:
    cloud, workload, _ = small()
    state = State(cloud, workload)
    # LB fits on the ASIC in 2.2 µs at up to 20 Gbit/s, elsewhere not at this rate, and the links are too small; the port of the ASIC is not.
    chain = Chain("c", ("FW", "LB"), 30, 5)
    program = sfc.Program(state, [chain])
    assert not program.solve(seconds=10).embeddings
    conflict = program.explain(seconds=10)
    assert conflict.is_minimal and "5.14" in conflict.groups
    # One way out: SipHash of the ASIC carries 10 Gbit/s more.
    assert conflict.remedies["5.14"] == [("extern[siphash24,asic]", pytest.approx(10))]
    alone = sfc.Program(state, [Chain("c", ("LB",), 1, 2.1)]).explain(seconds=10)
    assert alone.groups == ["5.31"] and alone.remedies == {"5.31": [("delay[c]", pytest.approx(0.1, abs=1e-4))]}
    with pytest.raises(PlaceError, match="found a solution"):
        sfc.Program(state, [Chain("c", ("LB",), 1, 100)]).explain(seconds=10)
    program.model.write(tmp_path / "model.lp")
    text = (tmp_path / "model.lp").read_text()
    assert "alpha_c_0_npu_" in text and "delay_c_" in text
    with pytest.raises(PlaceError, match="found format '.txt', expected .lp or .mps"):
        program.model.write(tmp_path / "model.txt")


def test_the_written_program_is_the_one_that_is_solved(tmp_path: Path) -> None:
    import highspy

    rng = random.Random(5)
    state, _ = fill(random_cloud(rng), rng, 3)
    program = sfc.Program(state, [Chain("c", ("FW", "LB"), 1, 1e6)])
    program.model.write(tmp_path / "model.lp")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(tmp_path / "model.lp"))
    highs.run()
    assert highs.getInfo().objective_function_value == pytest.approx(program.solve(seconds=10).power_w)


@pytest.mark.parametrize("seed", range(6))
def test_embedding_together(seed: int) -> None:
    """The bound is below the optimum of the program for all chains, the plan not."""
    rng = random.Random(2000 + seed)
    cloud = random_cloud(rng, racks_max=1, servers_max=2)
    workload = Workload("w", FUNCTIONS, ("L2Fwd",), chains=[random_chain(rng, number, length_max=2) for number in range(3)])
    result = embed_together(cloud, workload, seconds=10)
    assert check.violations(cloud, workload, result.plan) == []
    best = sfc.Program(State(cloud, workload), workload.chains).solve(seconds=30)
    if best.embeddings:
        assert result.bound_w <= best.power_w + 1e-4
        if not result.plan.rejected:
            assert best.power_w <= result.power_w + 1e-4
    elif best.is_proven:
        assert result.plan.rejected


# PA-P4VNF-RA.


def offer(counts: dict[str, int], instances: list[Instance], *, rate: float = 1.0) -> tuple[Cloud, Workload]:
    cloud = Cloud("offer", TYPES)
    cloud.devices = {f"{kind}{k}": Device(f"{kind}{k}", kind) for kind, count in counts.items() for k in range(count)}
    return cloud, Workload("w", FUNCTIONS, ("L3Fwd",), rate, instances=instances)


@pytest.mark.parametrize("seed", range(12))
def test_counting_finds_the_optimum_of_the_program_and_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    counts = {"cpu": rng.randint(0, 2), "npu": rng.randint(0, 1), "fpga": rng.randint(0, 1), "asic": rng.randint(0, 1)}
    instances = [Instance(f"i{k}", rng.choice(list(FUNCTIONS)), rng.choice([1, 3, 4])) for k in range(rng.randint(1, 4))]
    cloud, workload = offer(counts, instances)
    goal = vnf.Goal(rng.choice([0, 0.5, 1]), rng.choice([0.5, 1]), 100, 10_000, rng.choice([None, 700, 50_000]))
    counted = vnf.plan(cloud, workload, goal, seconds=20)
    solved, _ = vnf.solve(cloud, workload, goal, seconds=20)
    best = float("inf")
    for devices in itertools.product(cloud.devices, repeat=len(instances)):
        plan = Plan("offer", "w", "b", instances={i.name: device for i, device in zip(instances, devices)})
        if devices and not check.violations(cloud, workload, plan, budget_usd=goal.budget_usd):
            used = set(devices)
            placed = [*((device, i.function) for i, device in zip(instances, devices)), *((device, "L3Fwd") for device in used)]
            delay = sum(cloud.type_of(d).base_us + check.processing_us(cloud.type_of(d), FUNCTIONS[name]) for d, name in placed)
            best = min(best, goal.mu * delay / 100 + goal.epsilon * sum(cloud.type_of(d).price_usd for d in used) / 10_000)
    assert counted.is_proven and solved.is_proven
    assert counted.objective == pytest.approx(best) and solved.objective == pytest.approx(best)
    for found in (counted, solved):
        if found.plan is not None:
            assert check.violations(cloud, workload, found.plan, budget_usd=goal.budget_usd) == []


def test_the_four_scenarios() -> None:
    inputs = load_inputs("vnf")
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    assert vnf.plan(cloud, workload, vnf.Goal(0, 1), seconds=20).devices == {"cpu": 25}
    assert set(vnf.plan(cloud, workload, vnf.Goal(1, 0), seconds=20).devices) == {"asic"}
    delay, _ = vnf.maxima(cloud, workload, seconds=20)
    assert vnf.plan(cloud, workload, vnf.Goal(0.5, 0.5, delay, 100_000), seconds=20).devices == {"npu": 22}
    inputs.workload["instances"]["count"] = 84
    budget = vnf.plan(cloud, make_workload(inputs), vnf.Goal(1, 0, budget_usd=100_000), seconds=20)
    assert budget.devices == {"asic": 2, "fpga": 4} and budget.cost_usd <= 100_000 and budget.is_proven


def test_sharing_makes_room() -> None:
    """25 instances of FW need 100 constructs besides the 5 of L3Fwd, one type only 4."""
    cloud, workload = offer({"asic": 1}, [Instance(f"i{k}", "FW", 1) for k in range(25)])
    distinct, _ = vnf.solve(cloud, workload, vnf.Goal(1, 1), seconds=20)
    shared, _ = vnf.solve(cloud, workload, vnf.Goal(1, 1), seconds=20, is_distinct=False)
    assert distinct.plan is None and distinct.is_proven and shared.plan is not None
    model, _ = vnf.program(cloud, workload, vnf.Goal(1, 1))
    assert model.conflict(seconds=10).groups == ["5.11"]
    # 25 of 4 constructs and 5 for L3Fwd, of 100.
    conflict = vnf.explain(cloud, workload, vnf.Goal(1, 1), seconds=10)
    assert conflict.remedies == {"5.11": [("5.11[asic]", pytest.approx(5))]}


# The baseline and the heuristics.


def test_the_order_of_the_greedy_heuristic() -> None:
    found = greedy.order(TYPES)
    assert [name for name, _ in found] == ["cpu", "npu", "asic", "fpga"]
    assert [ratio for _, ratio in found] == pytest.approx([0, 0.2458, 0.3731, 5.6289], abs=1e-4)


@pytest.mark.parametrize("is_rate_per_function", [False, True])
def test_greedy_never_beats_the_exact_method_on_one_chain(is_rate_per_function: bool) -> None:
    inputs = load_inputs("exp4").changed(cloud={"racks": 1, "servers_per_rack": 4}, workload={"chains": 60})
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    state = State(cloud, workload)
    method = greedy.Greedy(state, greedy.Settings(9, 1, is_rate_per_function))
    rejected = 0
    for chain in workload.chains:
        best = embed(state, chain)
        before = state.power_w
        answer = method.embed(chain)
        if answer.embedding is None:
            rejected += 1
        else:
            assert best.embedding is not None and state.power_w - before >= best.power_w - 1e-9
    assert rejected
    plan = state.plan(workload.name, "greedy")
    assert check.violations(cloud, workload, plan) == []
    assert all(len(set(embedding.devices)) == 1 for embedding in plan.chains.values())


def test_thresholds_drop_devices() -> None:
    cloud = Cloud("one", TYPES, {"npu": Device("npu", "npu")})
    workload = Workload("w", FUNCTIONS, ("L2Fwd",))
    for rate_min, second in ((5, True), (6, False)):
        method = greedy.Greedy(State(cloud, workload), greedy.Settings(0, rate_min, False))
        assert method.embed(Chain("a", ("FW",), 5, 100)).embedding is not None
        assert (method.embed(Chain("b", ("FW",), 1, 100)).embedding is not None) is second


def test_trials_of_the_agnostic_baseline() -> None:
    inputs = load_inputs("exp4").changed(cloud={"racks": 1, "servers_per_rack": 2})
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    state = State(cloud, workload)
    chain = workload.chains[0]
    # A CPU takes less power than an NPU, but is too slow.
    for solver in (None, by_program(20)):
        result = embed_by_trials(state, chain) if solver is None else embed_by_trials(state, chain, solver)
        assert result.trials == 2 and result.power_w == pytest.approx(embed(state, chain).power_w)
    never = Chain("never", ("FW",), 1, 1)
    assert embed_by_trials(state, never).embedding is None
    stopped = embed_by_trials(state, never, trials_max=1)
    assert not stopped.is_complete


def test_arrivals_and_departures() -> None:
    inputs = load_inputs("exp4").changed(
        cloud={"racks": 1, "servers_per_rack": 4}, workload={"chains": 150, "arrivals_per_s": 1.0, "holding_s": 200.0}
    )
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    state = State(cloud, workload)
    log = run(state, workload)
    assert len(log.power_w) == 300 and state.power_w == 0 and not state.chains
    assert log.rejected and log.functions_until_reject < log.functions


def test_moves_admit_a_chain() -> None:
    """A chain that both devices can host is on the only one that can host the other."""
    cloud = Cloud("two", TYPES, {"npu": Device("npu", "npu"), "cpu": Device("cpu", "cpu")})
    workload = Workload("w", FUNCTIONS, ("L2Fwd",))
    state = State(cloud, workload)
    state.place(Chain("slow", ("FW",), 6, 100), Embedding(("npu",), ()))
    fast = Chain("fast", ("FW",), 6, 10)
    assert embed(state, fast).embedding is None
    assert admit(state, fast, moves_max=0) is None
    moved = admit(state, fast, moves_max=1)
    assert moved is not None and moved["slow"][1].devices == ("cpu",) and state.chains["fast"][1].devices == ("npu",)
    assert admit(state, Chain("more", ("FW",), 6, 10), moves_max=1) is None and len(state.chains) == 2


@pytest.mark.parametrize("seed", range(8))
def test_improvement_keeps_its_bound_on_moves(seed: int) -> None:
    rng = random.Random(3000 + seed)
    cloud = random_cloud(rng, racks_max=2, servers_max=2)
    state, workload = fill(cloud, rng, 8)
    for name in list(state.chains)[::2]:
        state.remove(name)
    moves = rng.randint(1, 3)
    present = dict(state.chains)
    exact = State(cloud, workload)
    for chain, embedding in present.values():
        exact.place(chain, embedding)
    found = improve(state, moves_max=moves, seconds=5)
    best = improve_exactly(exact, moves_max=moves, seconds=20)
    for result, after in ((found, state), (best, exact)):
        assert len(result.moved) <= moves and result.power_w <= result.power_before_w + 1e-6
        assert after.chains.keys() == present.keys()
        changed = {name for name, (_, old) in present.items() if after.chains[name][1].devices != old.devices}
        assert len(changed) <= moves
        assert check.violations(cloud, workload, after.plan("random", "x")) == []
    assert best.is_proven and best.power_w <= found.power_w + 1e-4


def test_improvement_empties_a_device() -> None:
    cloud = Cloud("two", TYPES, {"npu": Device("npu", "npu"), "cpu": Device("cpu", "cpu")})
    workload = Workload("w", FUNCTIONS, ("L2Fwd",))
    state = State(cloud, workload)
    state.place(Chain("a", ("FW",), 1, 100), Embedding(("npu",), ()))
    state.place(Chain("b", ("FW",), 1, 100), Embedding(("cpu",), ()))
    result = improve(state, moves_max=1, seconds=5)
    assert (result.power_before_w, result.power_w) == (115, 50) and list(result.moved) == ["a"]


def test_improvement_puts_a_device_in_use() -> None:
    """One by one, CPUs are added for chains that an ASIC could carry together."""
    inputs = load_inputs("exp2").changed(cloud={"racks": 1, "asic_ratio": 1.0}, workload={"chains": 18})
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    state = State(cloud, workload)
    run(state, workload)
    assert state.power_w == 200
    assert improve(state, moves_max=8, seconds=5).power_w == 200
    result = improve(state, moves_max=18, seconds=5)
    assert result.power_w == state.power_w == 100
    assert check.violations(cloud, workload, state.plan(workload.name, "x")) == []


def test_a_plan_of_a_run_names_what_was_rejected() -> None:
    inputs = load_inputs("exp1")
    cloud, workload = make_cloud(inputs), make_workload(inputs)
    state = State(cloud, workload)
    log = run(state, workload)
    plan = plan_of(state, workload, log)
    assert len(plan.chains) == 13 and len(plan.rejected) == 47 and plan.proven
    assert Counter(len(embedding.devices) for embedding in plan.chains.values()) == {6: 13}
