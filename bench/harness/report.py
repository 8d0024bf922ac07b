"""From seconds to ratios, tables and the files that keep them."""

import json
import statistics


def ratios(ours, theirs):
    """Their time over ours, round by round: each round's median seconds. Above 1 hark is faster."""
    return [statistics.median(b) / statistics.median(a) for a, b in zip(ours, theirs, strict=True)]


def summary(ours, theirs, memory=(None, None), flops=None, peak=None):
    """The figures of one peer. `ours` and `theirs` are lists of rounds, each a list of seconds."""
    by_round = ratios(ours, theirs)
    medians = [statistics.median(second for each in side for second in each) for side in (ours, theirs)]
    found = {
        "ratio": statistics.median(by_round), "lowest": min(by_round), "highest": max(by_round), "rounds": len(by_round),
        "seconds": medians[0], "peer_seconds": medians[1],
    }
    if all(memory):
        found |= {"memory_ratio": memory[0] / memory[1], "memory_bytes": memory[0], "peer_memory_bytes": memory[1]}
    if flops and peak:
        found |= {"share_of_peak": flops / medians[0] / peak, "peer_share_of_peak": flops / medians[1] / peak}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in found.items()}


def merge(results, key, machine, rows):
    """`results.json` with the newest result of each row on this kind of processor; others stay as they are."""
    merged = {name: dict(entry) for name, entry in results.items()}
    entry = merged.setdefault(key, {})
    entry["machine"] = machine
    entry["rows"] = dict(sorted((entry.get("rows", {}) | rows).items()))
    return dict(sorted(merged.items()))


def history_lines(machine, date, rows):
    """One short line for each row and peer."""
    for name, row in rows.items():
        short = {peer: figures.get("ratio") for peer, figures in row["peers"].items() if "ratio" in figures}
        if row.get("seconds") is not None or short:
            yield json.dumps({"date": date, "processor": machine["key"], "row": name, "ratios": short,
                              "seconds": row.get("seconds"), "load": round(machine["load"], 2)})


def percent(share):
    return "" if share is None else f"{100 * share:.0f} %"


def lines(peer, figures):
    """What is printed of a peer while rows are measured."""
    memory = f", memory {figures['memory_ratio']:.2f}" if "memory_ratio" in figures else ""
    choice = f", {figures['choice']} chosen" if "choice" in figures else ""
    yield (f"{peer}: {figures['ratio']:.2f} ({figures['lowest']:.2f}–{figures['highest']:.2f}), "
           f"{figures['peer_seconds']:.4g} s{memory}{choice}")
    for name, part in figures.get("parts", {}).items():
        yield f"{peer}, {name}: {part['ratio']:.2f} ({part['lowest']:.2f}–{part['highest']:.2f}), {part['peer_seconds']:.4g} s"


def table_lines(row, peer, figures):
    """The lines of a peer in the table: one, and one for each part."""
    yield cells(row["what"], peer, figures)
    for name, part in figures.get("parts", {}).items():
        yield cells(f"{row['what']}: {name}", peer, part)


def precision_lines(row):
    """The lines of a row's other precisions."""
    for name, figures in row.get("precisions", {}).items():
        memory = f"{figures['memory_ratio']:.2f}" if "memory_ratio" in figures else ""
        yield (f"| {name}: {row['what']} | {figures['ratio']:.2f} | {figures['lowest']:.2f}–{figures['highest']:.2f} | {memory} | "
               f"{figures['least_cosine']:.4f} |")


def cells(what, peer, figures):
    if "ratio" not in figures:
        return [what, peer, "failed", "", "", "", ""]
    spread = f"{figures['lowest']:.2f}–{figures['highest']:.2f}"
    memory = f"{figures['memory_ratio']:.2f}" if "memory_ratio" in figures else ""
    return [what, peer, f"{figures['ratio']:.2f}", spread, memory, percent(figures.get("share_of_peak")),
            percent(figures.get("peer_share_of_peak"))]


def table(results):
    """Markdown of results.json: a table for each kind of processor."""
    parts = []
    for key, entry in results.items():
        machine = entry["machine"]
        rows = [f"{key}, {machine['threads']} threads; arithmetic peak {machine['peak_gflops']:.0f} GFLOP/s.", "",
                "| what | against | ratio | spread | memory | share of peak | theirs |", "|---|---|--:|--:|--:|--:|--:|"]
        alone = []
        for row in entry["rows"].values():
            if not row["peers"]:
                alone.append(f"| {row['what']} | {row['seconds'] * 1e3:.1f} ms | {row['memory_bytes'] / 1e6:.0f} MB |")
            for peer, figures in row["peers"].items():
                rows += ["| " + " | ".join(line) + " |" for line in table_lines(row, peer, figures)]
        parts.append("\n".join(rows))
        narrow = [line for row in entry["rows"].values() for line in precision_lines(row)]
        if narrow:
            parts.append("\n".join(["| hark in | ratio to 32 bits | spread | memory | least cosine to 32 bits |", "|---|--:|--:|--:|--:|",
                                    *narrow]))
        if alone:
            parts.append("\n".join(["| without a peer | median | peak memory |", "|---|--:|--:|", *alone]))
    return "\n\n".join(parts)
