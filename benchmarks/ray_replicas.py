"""Throughput of `ruplar serve --ray` against the number of replicas: measured costs per request → a simulation up to 1,000.

    python benchmarks/ray_replicas.py measure results/bench/ray-serve.json     # about 5 minutes on two cores
    python benchmarks/ray_replicas.py simulate results/bench/ray-serve.json docs/figures/ray-replicas.png

`measure` sends questions to a real Ray Serve application on this machine and divides the CPU time of each process by the
requests, so waiting for a busy core or a slow client does not count; shared caches still make a busy machine slower. `simulate` sends requests through proxies (one at a
time each) to replicas (the less loaded of two random ones, as Ray's router does); a replica with k questions in its slots
finishes them at the recorded rate for batches of k.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import os
import random
import sys
import time
from collections import deque
from pathlib import Path

SLOTS = 32
PER_NODE = 8
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
H200 = Path(__file__).parents[1] / "results/bench/nvidia-h200/throughput-llama-3.2-1b.json"
QUESTION = "Tom has {} bags of 4 apples. He eats 2 apples. How many apples are left?"


def cpu_seconds(title: str) -> float:
    """CPU time so far of the process with this title."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        if file.read_bytes().startswith(title.encode()):
            fields = (file.parent / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    raise SystemExit(f"no process is called {title}")


async def ask(port: int, count: int, at_once: int) -> None:
    import httpx

    async with httpx.AsyncClient(timeout=300, limits=httpx.Limits(max_connections=at_once)) as client:

        async def one(n: int) -> None:
            body = {"model": "embedded", "messages": [{"role": "user", "content": QUESTION.format(n % 90 + 3)}]}
            (await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body)).raise_for_status()

        numbers = iter(range(count))

        async def client_of_one_connection() -> None:
            for n in numbers:
                await one(n)

        await asyncio.gather(*(client_of_one_connection() for _ in range(at_once)))


def measure(file: Path, port: int = 8765, requests: int = 500) -> None:
    import ray
    from ray import serve

    from ruplar.cluster.application import application
    from ruplar.serve.app import ServerConfig
    from ruplar.serve.schemas import Limits

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    config = ServerConfig(model="embedded", name="embedded", compare="none", port=port)
    serve.run(application(config, Limits(slots=SLOTS), (1, 1), 0.0), name="embedded", route_prefix="/")
    titles = {"proxy": "ray::ProxyActor", "replica": "ray::ServeReplica:embedded"}
    found: dict = {"slots": SLOTS, "requests": requests, "ray": ray.__version__, "cpu_ms_per_request": {}}
    for at_once in (1, 8, SLOTS):
        asyncio.run(ask(port, 100, at_once))  # warm
        before, began = {name: cpu_seconds(title) for name, title in titles.items()}, time.perf_counter()
        asyncio.run(ask(port, requests, at_once))
        seconds = time.perf_counter() - began
        found["cpu_ms_per_request"][at_once] = {
            name: 1000 * (cpu_seconds(title) - before[name]) / requests for name, title in titles.items()
        }
        print(at_once, found["cpu_ms_per_request"][at_once], f"{requests / seconds:.0f} requests/s", flush=True)
    serve.delete("embedded")
    found["controller_cpu_share"] = {}

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    class Idle:
        def __call__(self) -> str:
            return ""

    for count in (1, 9):
        scaling = {"min_replicas": count, "max_replicas": count}
        serve.run(Idle.options(autoscaling_config=scaling).bind(), name="idle", route_prefix="/")
        time.sleep(5)
        before = cpu_seconds("ray::ServeController")
        time.sleep(40)
        found["controller_cpu_share"][count] = (cpu_seconds("ray::ServeController") - before) / 40
        print(f"controller with {count} replicas: {found['controller_cpu_share'][count]:.1%} of a core", flush=True)
    serve.shutdown()
    ray.shutdown()
    file.write_text(json.dumps(found, indent=2) + "\n")


def interpolated(rates: dict[int, float]) -> list[float]:
    """Rates by batch size → rate with 0 … SLOTS questions in the slots."""
    sizes = sorted(rates)
    found = [0.0]
    for k in range(1, SLOTS + 1):
        low = max((s for s in sizes if s <= k), default=sizes[0])
        high = min((s for s in sizes if s >= k), default=sizes[-1])
        part = (k - low) / (high - low) if high > low else 0.0
        found.append(rates[low] + part * (rates[high] - rates[low]))
    return found


def simulate(replicas: int, proxies: int, proxy_ms: float, rates: list[float]) -> float:
    """Questions per second at saturation: twice as many clients as slots, each with one request at a time."""
    rng = random.Random(0)
    free_at = [0.0] * proxies  # when a proxy has passed on what it has received
    ongoing, waiting = [0] * replicas, [deque() for _ in range(replicas)]
    events: list[tuple[float, int, int]] = []  # time, replica or -1 (a request leaves its proxy), proxy
    clients, target, warm = 2 * SLOTS * replicas, 60 * SLOTS * replicas, 20 * SLOTS * replicas
    if target > 400_000:
        target, warm = 8 * SLOTS * replicas, 4 * SLOTS * replicas

    def send(now: float) -> None:
        proxy = rng.randrange(proxies)
        free_at[proxy] = max(now, free_at[proxy]) + proxy_ms / 1000
        heapq.heappush(events, (free_at[proxy], -1, proxy))

    def start(now: float, replica: int) -> None:
        ongoing[replica] += 1
        busy = ongoing[replica]
        heapq.heappush(events, (now + rng.uniform(0.8, 1.2) * busy / rates[busy], replica, 0))

    for _ in range(clients):
        send(0.0)
    done, began = 0, 0.0
    while done < target:
        now, replica, _ = heapq.heappop(events)
        if replica < 0:
            one, two = rng.randrange(replicas), rng.randrange(replicas)
            chosen = min(one, two, key=lambda r: ongoing[r] + len(waiting[r]))
            if ongoing[chosen] < SLOTS:
                start(now, chosen)
            else:
                waiting[chosen].append(now)
            continue
        ongoing[replica] -= 1
        if waiting[replica]:
            waiting[replica].popleft()
            start(now, replica)
        done += 1
        if done == warm:
            began = now
        send(now)
    return (done - warm) / (now - began)


def figure(measured: Path, picture: Path) -> None:
    from ruplar.report.figures.style import BLUE, GREEN, MUTED, Drawing, panels, styled

    found = json.loads(measured.read_text())
    costs = {int(k): v for k, v in found["cpu_ms_per_request"].items()}
    proxy_ms = costs[SLOTS]["proxy"]
    share = {int(k): v for k, v in found["controller_cpu_share"].items()}
    per_replica = (share[9] - share[1]) / 8
    replicas = {
        "embedded model, one CPU core (measured here)": {k: 1000 / v["replica"] for k, v in costs.items()},
        "Llama-3.2-1B, one H200 (recorded)": {
            int(k): v for k, v in json.loads(H200.read_text())["questions_per_s"].items()
        },
    }
    print(f"proxy: {proxy_ms:.2f} ms of CPU per request, {1000 / proxy_ms:,.0f} requests/s")
    print(f"controller: {per_replica:.2%} of a core per replica, full at {1 / per_replica:,.0f} replicas")

    @styled
    def draw() -> Drawing:
        image, axes = panels(1, 2, 12, 4.6)
        for axis, (name, rates) in zip(axes, replicas.items(), strict=True):
            table = interpolated(rates)
            ideal = [n * table[SLOTS] for n in COUNTS]
            lines = {
                "one proxy": [simulate(n, 1, proxy_ms, table) for n in COUNTS],
                f"a proxy per {PER_NODE} replicas": [simulate(n, -(-n // PER_NODE), proxy_ms, table) for n in COUNTS],
            }
            axis.plot(COUNTS, ideal, "--", color=MUTED, label="replicas alone")
            for (label, values), colour, mark in zip(lines.items(), (BLUE, GREEN), "os", strict=True):
                axis.plot(COUNTS, values, color=colour, marker=mark, label=label)
                print(name, label, {n: round(v) for n, v in zip(COUNTS, values, strict=True)})
            print(name, "replicas alone", round(table[SLOTS], 1), "per replica")
            axis.set(xscale="log", yscale="log", title=name, xlabel="replicas", ylabel="questions per second")
            axis.title.set_fontsize(12)
            axis.legend()
        return Drawing("Throughput against replicas", "", image)

    picture.write_bytes(draw().png())


if __name__ == "__main__":
    verb, *paths = sys.argv[1:]
    {"measure": measure, "simulate": figure}[verb](*map(Path, paths))
