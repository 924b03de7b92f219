"""Cluster of a measured run: the machine that free texts of hardware and interconnect describe."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from experiments.row_text import Row, UnsupportedError, needed, text, whole
from experiments.runfile import ClusterSpec
from sim.errors import InputError
from sim.units import GB, GIGA, TERA, Gbit
from topologies import CLUSTERS
from topologies.devices import canonical, parse
from topologies.grid import slice_shape
from topologies.presets import Preset
from topologies.torus import torus

MACHINES: Mapping[str, str] = MappingProxyType(
    {
        "v100": "v100-cluster", "a100": "a100-superpod", "a800": "a100-superpod", "h100": "h100-fat-tree",
        "h200": "h200-fat-tree", "h800": "h800-fat-tree", "h20": "h20-fat-tree", "b200": "b200-fat-tree",
        "b300": "b300-fat-tree", "gb200": "gb200-nvl72", "gb300": "gb300-nvl72", "gh200": "h100-fat-tree",
        "mi250x": "mi300x-fat-tree", "mi300x": "mi300x-fat-tree", "mi325x": "mi300x-fat-tree",
        "mi350x": "mi355x-fat-tree", "mi355x": "mi355x-fat-tree",
        "tpu 3": "tpu-v3", "tpu 4": "tpu-v4", "tpu 5e": "tpu-v5e", "tpu 5p": "tpu-v5p", "tpu 6e": "tpu-v6e",
        "tpu 7x": "tpu-7x", "ascend 910b": "ascend-910b-roce", "ascend 910c": "cloudmatrix-384",
        "trainium 1": "trainium1", "trainium 2": "trainium2", "gaudi 2": "gaudi2",
    }
)  # fmt: skip
"""Family of a device -> the machine it usually stands in."""
BIG_HOSTS: Mapping[tuple[str, int], str] = MappingProxyType({("v100", 16): "v100-dgx2-cluster"})
"""Machines that a host's size tells apart."""
NICS: tuple[tuple[str, str], ...] = (
    (r"omni-?path|\bopa", "opa100"), (r"tcpx", "tcpxo"), (r"\befa\b", "efa"), (r"roce", "roce"),
    (r"xdr|cx-?8|connectx-?8", "xdr-800"), (r"ndr|cx-?7|connectx-?7", "ndr-400"), (r"hdr|cx-?6", "hdr-200"),
    (r"edr|cx-?5", "edr-100"), (r"\bib\b|infiniband", "ib"),
)  # fmt: skip
"""Word of an interconnect text -> kind of adapter; ``roce`` and ``ib`` take the kind of the nearest rate."""
GENERATIONS: Mapping[str, float] = MappingProxyType(
    {"edr": 100.0, "hdr": 200.0, "ndr": 400.0, "xdr": 800.0}
)
BY_RATE: Mapping[str, tuple[tuple[float, str], ...]] = MappingProxyType(
    {
        "ib": ((100.0, "edr-100"), (200.0, "hdr-200"), (400.0, "ndr-400"), (800.0, "xdr-800")),
        "roce": (
            (100.0, "roce-100"),
            (200.0, "roce-200"),
            (400.0, "roce-400"),
            (800.0, "roce-800"),
        ),
    }
)
RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/\d+)?\s*([tg])(b|bit|bits|B)(?:it)?(?:ps|/s)")
COUNT = re.compile(r"(?<![\w-])(\d+)\s*x(?=[\s\d])")
INSIDE = re.compile(r"nvlink|nvswitch|nvl72|hccs|infinity fabric|xgmi|neuronlink|\bici\b")
LINKS = re.compile(r"\((\d+) links\)")
ODD = re.compile(r"power[- ]limited|preview|-class")
"""Words of hardware that is not the device as sold, by how much is not stated."""
SLICES = (
    re.compile(r"dcn between (\d+) slices"), re.compile(r"\b(\d+) slices\b"),
    re.compile(r"\b(\d+)x v\d\w*-\d+"), re.compile(r"\b(\d+) pods\b"),
)  # fmt: skip
SLICE_SIZE = re.compile(
    r"(\d+)[- ]chips?(?: per)? slice|per (\d+)-chip slice|(\d+) chips per slice"
)


@dataclass(frozen=True, slots=True)
class Network:
    """What leaves a server: ``kind`` of adapter ('' not stated), bytes/s of a device or of a server (0: not stated)."""

    kind: str = ""
    nics: int = 0
    nic_bandwidth: float = 0.0
    per_host: float = 0.0


def network_of(interconnect: str) -> Network:
    """Return the adapters an interconnect text states; inner links (NVLink, HCCS) are no adapters.

    >>> network_of("NVLink3; 800 Gb/s per node (4x HDR200)").per_host
    100000000000.0
    >>> network_of("NVLink4; 8x NDR400 IB").nic_bandwidth
    50000000000.0
    """
    clauses = [part.strip() for part in re.split(r"[;,]", interconnect) if part.strip()]
    outer = [_outer(clause) for clause in clauses]
    found = " ; ".join(part for part in outer if part)
    lower = found.lower()
    kind = next((kind for pattern, kind in NICS if re.search(pattern, lower)), "")
    count = COUNT.search(lower)
    rate = RATE.search(found.replace("Tb", "tb").replace("Gb", "gb").replace("GB", "gB"))
    each = _bytes(rate) if rate else _generation(lower)
    if not each or "on-die" in lower:
        return Network()
    together = re.search(r"per (node|vm|host|server)|\befa\b", lower)
    single = rate is None or (count is not None and count.start() < rate.start())
    if count and single:
        return Network(kind, int(count[1]), each)
    if together:
        return Network(kind, int(count[1]) if count else 0, 0.0, each)
    return Network(kind, 0, each)


def _outer(clause: str) -> str:
    """Return what of a clause speaks of the network: a site's name and inner links dropped."""
    clause = clause.split(":", 1)[1] if re.match(r"^[\w ]+: ", clause) else clause
    inner = INSIDE.search(clause.lower())
    if not inner:
        return clause
    after = re.search(r"\b(?:\d+\s*x|ib\b|roce|efa)", clause.lower()[inner.end() :])
    return clause[inner.end() + after.start() :] if after and "links" not in clause else ""


def _bytes(rate: re.Match[str]) -> float:
    scale = TERA / GIGA if rate[2] == "t" else 1.0
    return float(rate[1]) * scale * (GB if rate[3] == "B" else Gbit)


def _generation(lower: str) -> float:
    """Return bytes/s of the adapter a text names by one generation, else 0."""
    if len(set(re.findall(r"\b(edr|hdr|ndr|xdr)", lower))) > 1:
        return 0.0
    named = re.search(r"\b(edr|hdr|ndr|xdr)\s*(\d{3})?", lower)
    if named:
        return (float(named[2]) if named[2] else GENERATIONS[named[1]]) * Gbit
    model = re.search(r"(?:cx|connectx)-?\s*(\d)", lower)
    return (
        {"5": 100.0, "6": 200.0, "7": 400.0, "8": 800.0}.get(model[1], 0.0) * Gbit if model else 0.0
    )


def cluster_of(row: Row) -> tuple[ClusterSpec, tuple[str, ...]]:
    """Return the machine of a row and what was assumed. Raises `UnsupportedError` for a device that does not ship."""
    hardware, gpus = text(row, "hardware"), needed(row, "gpus")
    parts = parse(hardware)
    if parts is None or parts.family not in MACHINES:
        raise UnsupportedError(f"hardware {hardware!r}: no device of that name ships")
    if ODD.search(hardware.lower()):
        raise UnsupportedError(
            f"hardware {hardware!r}: how it differs from the device as sold is not stated"
        )
    size = whole(row, "gpus_per_node") or 0
    preset = BIG_HOSTS.get((parts.family, size), MACHINES[parts.family])
    try:
        device = canonical(hardware)
    except InputError:
        device = CLUSTERS[preset].device
    assumed = [] if parts.memory else [f"hardware {hardware}: taken as {device}"]
    parameters: dict[str, object] = {} if device == CLUSTERS[preset].device else {"device": device}
    more, notes = (_slices if CLUSTERS[preset].host is None else _hosts)(row, preset, size, gpus)
    parameters |= more
    spec = ClusterSpec(preset=preset, num_devices=gpus, parameters=MappingProxyType(parameters))
    return spec, tuple(assumed + notes)


def _slices(row: Row, preset: str, size: int, gpus: int) -> tuple[dict[str, object], list[str]]:
    """Return the slices of a torus, where the row says how many, and their shape where tensor parallelism needs one."""
    slices = num_slices(row, gpus)
    shape = _along_an_axis(CLUSTERS[preset], whole(row, "tp") or 1, gpus, slices)
    if not shape:
        return {"slices": slices}, []
    return {"slices": slices, "shape": shape}, [
        f"shape not stated: {shape}, tp along its last axis"
    ]


def _along_an_axis(preset: Preset, tp: int, gpus: int, slices: int) -> str:
    """Return the compact shape of a slice turned so that groups of ``tp`` are lines of its last axis ('': as it is)."""
    limit = preset.parameters.get("max_slice")
    if tp == 1 or preset.family is not torus or not isinstance(limit, int):
        return ""
    axes, wrap = (
        preset.parameters.get(name, usual) for name, usual in (("axes", 3), ("wrap_size", 0))
    )
    assert isinstance(axes, int)
    assert isinstance(wrap, int)
    count = slices or -(-gpus // limit)
    if gpus % count or gpus // count > limit:
        return ""
    sides = slice_shape(gpus // count, axes, wrap, limit)
    last = next((side for side in sides[::-1] if side % tp == 0), sides[-1])
    if last == sides[-1]:
        return ""
    rest = list(sides)
    rest.remove(last)
    return "x".join(map(str, (*rest, last)))


def num_slices(row: Row, gpus: int) -> int:
    """Return in how many slices a row's devices stand: as its texts say, else one (0: as few as the machine allows)."""
    interconnect, notes = text(row, "interconnect").lower(), text(row, "notes").lower()
    if "dcn" not in interconnect:
        return 0
    for words in (interconnect, notes):
        for pattern in SLICES:
            found = pattern.search(words)
            if found:
                return int(found[1])
    chips = SLICE_SIZE.search(interconnect)
    stated = next((int(part) for part in chips.groups() if part), 0) if chips else 0
    return gpus // stated if stated else 0


def _hosts(row: Row, preset: str, size: int, gpus: int) -> tuple[dict[str, object], list[str]]:
    """Return host size, inner links and adapters that differ from the preset's."""
    host = CLUSTERS[preset].host
    assert host is not None
    parameters: dict[str, object] = {}
    stated = text(row, "interconnect")
    devices = host.devices
    if size and size != devices and not host.domain_devices:
        parameters["devices"] = devices = size
    links = LINKS.search(stated.lower())
    if links:
        parameters["scale_up_links"] = int(links[1])
        parameters["scale_up_bandwidth"] = (
            host.scale_up_bandwidth / host.scale_up_links * int(links[1])
        )
    network = network_of(stated)
    notes = []
    used = _used(gpus, host.domain_devices)
    if used:
        parameters["used_per_domain"] = used
        notes.append(
            f"placement not stated: {used} of {host.domain_devices} devices of a rack used"
        )
    if (
        gpus > (host.domain_devices or devices)
        and not network.nic_bandwidth
        and not network.per_host
    ):
        rate = host.nics * host.nic_bandwidth / Gbit / host.devices
        notes.append(f"network not stated: {rate:g} Gbit/s a device, the reference machine's")
    nics, bandwidth = _adapters(
        network, devices, host.nic_bandwidth, host.nics * devices // host.devices
    )
    parameters |= (
        {"nics": nics, "nic_bandwidth": bandwidth}
        if (nics, bandwidth) != (host.nics, host.nic_bandwidth)
        else {}
    )
    kind = _kind(network.kind, bandwidth)
    if kind and kind != host.nic:
        parameters["nic"] = kind
    return parameters, notes


def _used(gpus: int, domain: int) -> int:
    """Return how many devices of a rack are used so that all racks are alike; 0: all.

    >>> _used(256, 72), _used(144, 72), _used(8, 72)
    (64, 0, 0)
    """
    if not domain or gpus <= domain or gpus % domain == 0:
        return 0
    return max(size for size in range(1, domain + 1) if gpus % size == 0)


def _adapters(network: Network, devices: int, usual: float, count: int) -> tuple[int, float]:
    """Return adapters of a server and bytes/s of each; as many as divide the devices or a multiple of them."""
    total = (
        network.per_host or network.nics * network.nic_bandwidth or devices * network.nic_bandwidth
    )
    if not total:
        return max(1, count), usual
    wanted = network.nics or total / usual
    legal = [n for n in range(1, 5 * devices) if not (devices % n and n % devices)]
    nics = next((n for n in legal if n >= min(wanted, devices) - 0.01), devices)
    return nics, total / nics


def _kind(kind: str, bandwidth: float) -> str:
    """Return the kind of link of an adapter: generic ones by the nearest rate."""
    if kind not in BY_RATE:
        return kind
    return min(BY_RATE[kind], key=lambda item: abs(item[0] * Gbit - bandwidth))[1]
