//! Formats of other tools: flow lists and topologies of the HPCC simulator, htsim and Graphviz.
