"""The command `p4jet-place`."""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from ..lab.errors import LabError, describe
from . import check as checking
from . import experiments, files, generate, loop, sfc, vnf
from .agnostic import by_labels, embed_by_trials
from .errors import PlaceError
from .exact import Answer, embed
from .greedy import Greedy, Settings
from .heuristic import embed_quickly
from .lp import Conflict
from .model import Chain, Plan, Workload
from .online import Embedder, improve, improve_exactly, plan_of, run
from .state import State
from .together import embed_together

UNITS = {
    "5.11": "constructs", "5.12": "table entries", "5.13": "Gbit/s", "5.14": "Gbit/s", "5.15": "$", "5.26": "Gbit/s", "5.27": "Gbit/s",
    "5.30": "Gbit/s", "5.31": "µs",
}  # fmt: skip
METHODS = ("exact", "heuristic", "greedy", "agnostic", "together", "ilp")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns the exit status: 0; 1 for an error, a plan that breaks constraints, or none at all; 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="p4jet-place", description="Places network functions and chains on devices of a cloud.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _generate_command(commands)
    _plan_command(commands)
    _embed_command(commands)
    command = commands.add_parser("check", help="check a plan against every constraint")
    command.add_argument("cloud", type=Path)
    command.add_argument("workload", type=Path)
    command.add_argument("plan", type=Path)
    command.add_argument("--budget", type=_positive, help="MaxCost of Eq. 5.15, in $")
    command.set_defaults(action=_check)
    experiments.register(commands)
    loop.register(commands)
    args = parser.parse_args(argv)
    try:
        status: int = args.action(args)
        return status
    except (PlaceError, LabError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"error: {describe(error)}", file=sys.stderr)
        return 1


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number of at least 0")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number")
    return int(text)


def _generate_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("generate", help="make a cloud and a workload from inputs")
    command.add_argument("inputs", help=f"a file of inputs, or a preset: {', '.join(generate.presets())}")
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of cloud.json and workload.json")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another value of an input: cloud.racks=10")
    command.set_defaults(action=_generate)


def _generate(args: argparse.Namespace) -> int:
    inputs = generate.load_inputs(args.inputs)
    for text in args.set:
        name, equals, value = text.partition("=")
        part, dot, key = name.partition(".")
        if not equals or not dot or part not in ("cloud", "workload"):
            raise PlaceError(f"--set: found {text!r}, expected cloud.KEY=VALUE or workload.KEY=VALUE")
        try:
            parsed = json.loads(value)
        except json.JSONDecodeError:
            parsed = value
        values = inputs.cloud if part == "cloud" else inputs.workload
        if key not in values:
            raise PlaceError(f"--set: found {name!r}, expected one of: {', '.join(f'{part}.{known}' for known in values)}")
        values[key] = parsed
    cloud, workload = generate.make_cloud(inputs), generate.make_workload(inputs)
    print(generate.describe(inputs))
    files.save_cloud(cloud, args.out / "cloud.json")
    files.save_workload(workload, args.out / "workload.json")
    types = ", ".join(f"{sum(d.type == name for d in cloud.devices.values())} {name}" for name in cloud.types)
    print(f"cloud: {types}, {len(cloud.switches)} fixed switches, {len(cloud.links)} links: {args.out / 'cloud.json'}")
    print(f"workload: {len(workload.chains)} chains, {len(workload.instances)} instances: {args.out / 'workload.json'}")
    return 0


def _plan_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("plan", help="choose devices for single functions (PA-P4VNF-RA)")
    command.add_argument("cloud", type=Path)
    command.add_argument("workload", type=Path)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="the plan")
    command.add_argument("--mu", type=_share, required=True, help="weight of the delay")
    command.add_argument("--epsilon", type=_share, required=True, help="weight of the cost")
    command.add_argument("--delay-max", type=_positive, help="by which the delay is divided, in µs (default: that of the cheapest plan)")
    command.add_argument("--cost-max", type=_positive, help="by which the cost is divided, in $ (default: that of the fastest plan)")
    command.add_argument("--budget", type=_positive, help="MaxCost, in $")
    command.add_argument("--method", choices=("counting", "ilp"), default="counting")
    command.add_argument("--shared", action="store_true", help="with ilp: functions of one type on a device need their resources once")
    command.add_argument("--lp", type=Path, metavar="FILE", help="write the integer program, as .lp or .mps")
    command.add_argument("--seconds", type=_positive, default=60.0, help="limit of the solver (default 60)")
    command.set_defaults(action=_plan)


def _plan(args: argparse.Namespace) -> int:
    cloud, workload = files.load_cloud(args.cloud), files.load_workload(args.workload)
    if args.shared and args.method != "ilp":
        raise PlaceError("--shared: found method counting, expected ilp: counting takes functions as distinct")
    delay_max, cost_max = args.delay_max, args.cost_max
    if args.mu and args.epsilon and (delay_max is None or cost_max is None):
        delay, cost = vnf.maxima(cloud, workload, seconds=args.seconds)
        delay_max, cost_max = delay_max or delay, cost_max or cost
        print(f"delay divided by {delay_max:g} µs, cost by $ {cost_max:g}")
    goal = vnf.Goal(args.mu, args.epsilon, delay_max or 1.0, cost_max or 1.0, args.budget)
    if args.lp is not None:
        vnf.program(cloud, workload, goal, is_distinct=not args.shared)[0].write(args.lp)
    if args.method == "ilp":
        purchase, _ = vnf.solve(cloud, workload, goal, seconds=args.seconds, is_distinct=not args.shared)
    else:
        purchase = vnf.plan(cloud, workload, goal, seconds=args.seconds)
    if purchase.plan is None:
        if not purchase.is_proven:
            raise PlaceError(f"found no plan within {args.seconds:g} s; a greater --seconds or --method counting may help")
        print("error: there is no plan", file=sys.stderr)
        if args.shared:
            conflict = vnf.program(cloud, workload, goal, is_distinct=False)[0].conflict(seconds=args.seconds)
        else:
            conflict = vnf.explain(cloud, workload, goal, seconds=args.seconds)
        _print_conflict(conflict, vnf.GROUPS)
        return 1
    files.save_plan(purchase.plan, args.out)
    devices = ", ".join(f"{count} {name}" for name, count in purchase.devices.items())
    proof = "optimal" if purchase.is_proven else f"not proven to be optimal, the objective is at least {purchase.bound:.6g}"
    print(f"{devices}: delay {purchase.delay_us:.2f} µs, cost $ {purchase.cost_usd:g}, objective {purchase.objective:.6g}, {proof}")
    print(f"{purchase.seconds:.2f} s: {args.out}")
    return 0


def _embed_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("embed", help="embed chains (PA-P4SFC-E)")
    command.add_argument("cloud", type=Path)
    command.add_argument("workload", type=Path)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="the plan")
    command.add_argument("--method", choices=METHODS, default="exact", help="together and ilp embed all chains at once, the others one by one")
    command.add_argument("--given", type=Path, metavar="PLAN", help="chains that are in the cloud already")
    command.add_argument("--moves", type=_count, default=0, help="how many other chains may move for one that finds no place (exact, heuristic)")
    command.add_argument("--improve", type=_count, default=0, metavar="MOVES", help="then lower the power with at most this number of moves")
    command.add_argument("--exactly", action="store_true", help="improve by an integer program; for small clouds")
    command.add_argument("--size-min", type=_share, help="greedy: constructs below which a device is full")
    command.add_argument("--rate-min", type=_share, help="greedy: Gbit/s below which a device is full")
    command.add_argument("--rate-per", choices=("chain", "function"), help="greedy: what charges a device the rate")
    command.add_argument("--explain", action="store_true", help="say why the first rejected chain finds no place")
    command.add_argument("--lp", type=Path, metavar="FILE", help="ilp: write the integer program, as .lp or .mps")
    command.add_argument("--seconds", type=_positive, default=60.0, help="limit of each solver run (default 60)")
    command.set_defaults(action=_embed)


def _embed(args: argparse.Namespace) -> int:
    cloud, workload = files.load_cloud(args.cloud), files.load_workload(args.workload)
    if not workload.chains:
        raise PlaceError(f"{args.workload}: found no chains, expected at least one; `plan` takes instances")
    if args.lp is not None and args.method != "ilp":
        raise PlaceError(f"--lp: found method {args.method}, expected ilp")
    if args.given is not None and args.method in ("greedy", "together"):
        raise PlaceError(f"--given: found method {args.method}, which starts with an empty cloud; expected exact, heuristic, agnostic or ilp")
    state = State(cloud, workload)
    is_proven = True
    chains = {chain.name: chain for chain in workload.chains}
    if args.given is not None:
        given = files.load_plan(args.given)
        broken = checking.violations(cloud, workload, given)
        if broken:
            raise PlaceError(f"{args.given}: found {len(broken)} broken constraints, expected none; the first is {broken[0]}")
        for name, embedding in given.chains.items():
            state.place(chains.pop(name), embedding)
        is_proven = given.proven
    wanted = Workload(workload.name, workload.functions, workload.obligatory, chains=list(chains.values()))
    wanted.events = [event for event in workload.events if event.chain in chains]
    if args.method == "together":
        result = embed_together(cloud, wanted, seconds=args.seconds)
        plan, state = result.plan, result.state
        print(f"no plan for all chains has less power than {result.bound_w:g} W")
    elif args.method == "ilp":
        program = sfc.Program(state, wanted.chains)
        if args.lp is not None:
            program.model.write(args.lp)
        found = program.solve(seconds=args.seconds)
        if not found.embeddings:
            if not found.is_proven:
                raise PlaceError(f"found no plan within {args.seconds:g} s; a greater --seconds or --method exact may help")
            print("error: there is no plan for all chains", file=sys.stderr)
            _print_conflict(program.explain(seconds=args.seconds), sfc.GROUPS)
            return 1
        for chain in wanted.chains:
            state.place(chain, found.embeddings[chain.name])
        plan = state.plan(workload.name, "ilp")
        plan.proven = found.is_proven
        print(f"{found.solution.seconds:.2f} s, {found.solution.status}")
    else:
        # What is there now stays: the garbage collector, whose pauses would be those of chains, need not look at it.
        gc.freeze()
        log = run(state, wanted, _embedder(args, state), method=args.method, admission_moves=args.moves)
        plan = plan_of(state, workload, log)
        times = sorted(1e3 * second for second in log.seconds)
        if times:
            print(f"{statistics.mean(times):.3f} ms a chain, at most {times[-1]:.3f} ms of processor time; {log.moves} moves")
        if args.explain and log.rejected:
            _explain(state, chains[log.rejected[0]], args.seconds)
    if args.improve:
        better = (improve_exactly if args.exactly else improve)(state, moves_max=args.improve, seconds=args.seconds)
        print(f"{len(better.moved)} moves: {better.power_before_w:g} W before, {better.power_w:g} W now")
        again = state.plan(workload.name, plan.method)
        again.rejected = plan.rejected
        plan = again
    plan.proven = plan.proven and is_proven
    broken = checking.violations(cloud, workload, plan)
    if broken:
        raise PlaceError(f"the plan of method {args.method} breaks constraints, which is a fault of p4jet-place: {broken[0]}")
    files.save_plan(plan, args.out)
    functions = sum(len(embedding.devices) for embedding in plan.chains.values())
    proof = {True: "least power", False: "not proven to be the least power"}[plan.proven]
    print(f"{len(plan.chains)} chains with {functions} functions on {len(state.active())} devices: {state.power_w:g} W ({proof})")
    print(f"{len(plan.rejected)} rejected: {args.out}")
    return 0


def _embedder(args: argparse.Namespace, state: State) -> Embedder:
    if args.method == "greedy":
        for name in ("size_min", "rate_min", "rate_per"):
            if getattr(args, name) is None:
                raise PlaceError(f"greedy: found no --{name.replace('_', '-')}, expected it: the thesis does not give it")
        greedy = Greedy(state, Settings(args.size_min, args.rate_min, args.rate_per == "function"))
        return lambda _, chain: greedy.embed(chain)
    if args.method == "agnostic":

        def by_trials(state: State, chain: Chain) -> Answer:
            trials = embed_by_trials(state, chain, by_labels)
            return Answer(trials.embedding, trials.power_w, False, "agnostic", trials.trials, trials.solving_s)

        return by_trials
    if args.method == "heuristic":
        return embed_quickly
    return lambda state, chain: embed(state, chain, seconds=args.seconds)


def _explain(state: State, chain: Chain, seconds: float) -> None:
    answer = embed(state, chain, seconds=seconds)
    if answer.embedding is not None:
        print(f"chain {chain.name}: there is a place now, after departures")
        return
    print(f"chain {chain.name}: {' → '.join(chain.functions)}, {chain.rate_gbps:g} Gbit/s, at most {chain.delay_us:g} µs")
    _print_conflict(sfc.Program(state, [chain]).explain(seconds=seconds), sfc.GROUPS)


def _print_conflict(conflict: Conflict, groups: dict[str, str]) -> None:
    few = "These constraints exclude each other" if conflict.is_minimal else "Among these constraints some exclude each other"
    print(f"{few}: " + "; ".join(f"{group} ({groups[group]})" for group in conflict.groups))
    if conflict.remedies:
        print("Each of these alone would make room:")
    for group, rows in conflict.remedies.items():
        shown = ", ".join(f"{name} by {amount:.6g} {UNITS.get(group, '')}".rstrip() for name, amount in rows[:3])
        more = f" and {len(rows) - 3} others" if len(rows) > 3 else ""
        print(f"  {group}: {shown}{more}")


def _check(args: argparse.Namespace) -> int:
    cloud, workload = files.load_cloud(args.cloud), files.load_workload(args.workload)
    plan: Plan = files.load_plan(args.plan)
    for found, expected, what in ((plan.cloud, cloud.name, "cloud"), (plan.workload, workload.name, "workload")):
        if found != expected:
            raise PlaceError(f"{args.plan}.{what}: found {found!r}, expected {expected!r}")
    broken = checking.violations(cloud, workload, plan, budget_usd=args.budget)
    for violation in broken[:100]:
        print(violation)
    print(f"{len(plan.chains)} chains, {len(plan.instances)} instances, {checking.power_w(cloud, plan):g} W: {len(broken)} broken constraints")
    return 1 if broken else 0
