"""Topologies from graphs of networkx."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Attributes of an edge that a link has.
LINK = ("rate", "delay", "loss")


def fabric(graph: Any, hosts: Iterable[Any] | None = None, **settings: Any) -> dict[str, Any]:
    """The table `fabric` of a scenario for a graph of networkx::

        graph = networkx.Graph()
        graph.add_edges_from([("a", "s"), ("b", "s"), ("c", "s")])
        Scenario(fabric=rnic.topology.fabric(graph, rate="100 Gbps", delay="1 us"), ...)

    `graph` is undirected; each edge is a link, whose attributes `rate`, `delay` and `loss` change the values that
    `settings` has for all links. `hosts` are the nodes that are hosts; by default these are the nodes with the
    attribute `host=True`, or, if no node has this attribute, the nodes with one link. All other nodes are switches.
    Hosts are numbered from 0 in the order of `hosts`, or else of the graph's nodes. `settings` are other keys of
    `[fabric]`.

    Raises ValueError if the graph is directed, has no hosts, has an edge attribute that a link does not have, or if two
    nodes have the same name.
    """
    if graph.is_directed():
        raise ValueError("the graph is directed; links go both ways, so write graph.to_undirected()")
    nodes = list(graph.nodes)
    if hosts is None:
        flags = {node: bool(of["host"]) for node, of in graph.nodes(data=True) if "host" in of}
        chosen = [node for node in nodes if flags.get(node, False) or (not flags and graph.degree(node) == 1)]
    else:
        chosen = list(hosts)
        unknown = [node for node in chosen if node not in graph]
        if unknown:
            raise ValueError(f"the graph has no node {unknown[0]!r}; hosts are nodes of the graph")
    if not chosen:
        raise ValueError("the graph has no hosts: name them with `hosts`, or give nodes the attribute host=True")
    names = {node: str(node) for node in nodes}
    if len(set(names.values())) < len(names):
        raise ValueError("two nodes of the graph have the same name as text")
    is_host = set(chosen)
    links = []
    for start, end, attributes in graph.edges(data=True):
        wrong = [key for key in attributes if key not in LINK]
        if wrong:
            raise ValueError(f"the edge {start!r} - {end!r} has the attribute `{wrong[0]}`; accepted: {', '.join(LINK)}")
        links.append({"from": names[start], "to": names[end], **attributes})
    return {
        "topology": "graph",
        "hosts": [names[node] for node in chosen],
        "switches": [names[node] for node in nodes if node not in is_host],
        **settings,
        "link": links,
    }
