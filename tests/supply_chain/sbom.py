#!/usr/bin/env python3
"""The bill of materials of the `rendezvous` binary, as CycloneDX 1.5 in JSON on standard output.

    tests/supply_chain/sbom.py [TARGET] > rendezvous.cdx.json

What Cargo resolves for one target with the default features, without what only tests and benches use: for each crate its
version, licence, source, checksum of Cargo.lock, and what it depends on. The same tree gives the same bytes.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def checksums():
    """Name and version to SHA-256, from Cargo.lock."""
    found = {}
    for block in (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]:
        field = dict(re.findall(r'^(name|version|checksum) = "(.*)"$', block, re.M))
        if "checksum" in field:
            found[field["name"], field["version"]] = field["checksum"]
    return found


def reached(resolve, start):
    """Package ids that the binary is made of, build scripts and macros included, each with its own dependencies."""
    nodes = {node["id"]: node for node in resolve["nodes"]}
    graph, open_ids = {}, [start]
    while open_ids:
        package = open_ids.pop()
        if package in graph:
            continue
        used = [
            dependency["pkg"]
            for dependency in nodes[package]["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        ]
        graph[package] = used
        open_ids.extend(used)
    return graph


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, sums):
    about = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
        # Crates of before SPDX wrote a slash for OR.
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
    }
    checksum = sums.get((package["name"], package["version"]))
    if checksum:
        about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("repository"):
        about["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return about


def main():
    host = subprocess.run(["rustc", "--print", "host-tuple"], check=True, stdout=subprocess.PIPE, text=True).stdout
    target = sys.argv[1] if len(sys.argv) > 1 else host.strip()
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    packages = {package["id"]: package for package in metadata["packages"]}
    start = next(id for id, package in packages.items() if package["name"] == "rendezvous")
    graph, sums = reached(metadata["resolve"], start), checksums()
    unlicensed = [packages[id]["name"] for id in graph if not packages[id].get("license")]
    if unlicensed:
        sys.exit(f"no licence is stated by {', '.join(unlicensed)}")
    subject = component(packages[start], sums) | {"type": "application"}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": subject, "properties": [{"name": "cargo:target", "value": target}]},
        "components": sorted(
            (component(packages[id], sums) for id in graph if id != start), key=lambda about: about["bom-ref"]
        ),
        "dependencies": sorted(
            (
                {
                    "ref": reference(packages[id]),
                    "dependsOn": sorted({reference(packages[used]) for used in uses}),
                }
                for id, uses in graph.items()
            ),
            key=lambda entry: entry["ref"],
        ),
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
