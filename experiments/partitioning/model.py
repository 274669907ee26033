"""The paper's models in closed form (its Figures 2 to 4), as `crates/partition/src/model.rs` has them.

Bytes are those of a 1500-byte MTU on the wire; of descriptors the paper only says that they are an order of
magnitude smaller.
"""

HOP, ENTRY, LINK, PACKET, DESCRIPTOR = 0.5e-6, 8e-6, 1e9 / 8, 1538, 138
CORE = 1 / (HOP + ENTRY)


def link(crossings, cached, returns=1):
    """Edge packets per second and core that the cores' links carry."""
    return LINK / (PACKET + DESCRIPTOR * (crossings + returns) if cached else PACKET * (1 + crossings))


def cpu(crossings, cached, returns=1):
    """The same as far as CPUs carry them."""
    return CORE / (1 + crossings + (returns if cached else 0))


def two_cores(crossings, cached):
    """On two cores a packet is at home after an even number of crossings."""
    returns = crossings % 2
    return min(link(crossings, cached, returns), cpu(crossings, cached, returns))


def capacity(cores, hops, efficiency):
    """Packets per second of cores that are loaded alike."""
    return cores / (hops * HOP + ENTRY / efficiency)


def break_even(cores, hops):
    """The efficiency from which on so many cores carry more than one."""
    return ENTRY / (cores * (hops * HOP + ENTRY) - hops * HOP)
