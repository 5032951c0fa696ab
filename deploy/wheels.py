#!/usr/bin/env python3
"""Builds the wheels of both Python packages with the standard library alone, and proves that pip installs them.

    python3 deploy/wheels.py [DIRECTORY]        dist/wheels is the default

The wheels are pure Python and reproducible: the same sources give the same bytes. Name, version and the rest come from
each pyproject.toml. The proof is `pip install --no-index --no-deps` into an empty directory and an import from there;
without pip the wheel's own records are checked instead, and the output says so.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "clients" / "python", ROOT / "integrations" / "zenml")
#: The earliest that a zip can say.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def main(arguments: List[str]) -> int:
    target = Path(arguments[0]) if arguments else ROOT / "dist" / "wheels"
    target.mkdir(parents=True, exist_ok=True)
    wheels = [build(folder, target) for folder in PACKAGES]
    for wheel in wheels:
        print(f"built    {wheel}")
    prove(wheels)
    return 0


def build(folder: Path, target: Path) -> Path:
    project, packages = read_project(folder / "pyproject.toml")
    name, version = project["name"].replace("-", "_"), project["version"]
    info = f"{name}-{version}.dist-info"
    files = [
        (path.relative_to(folder).as_posix(), path.read_bytes())
        for package in packages
        for path in sorted((folder / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    files.append((f"{info}/METADATA", metadata(project, (folder / "README.md").read_text(encoding="utf-8")).encode()))
    files.append((f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: berth\nRoot-Is-Purelib: true\nTag: py3-none-any\n"))
    files.append((f"{info}/top_level.txt", "".join(f"{package}\n" for package in packages).encode()))
    files.append((f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes()))
    record = "".join(f"{path},{digest(content)},{len(content)}\n" for path, content in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode()))

    wheel = target / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files:
            entry = zipfile.ZipInfo(path, TIMESTAMP)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return wheel


def metadata(project: Dict[str, Any], readme: str) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {one}" for one in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {one}" for one in project.get("dependencies", [])),
    ]
    for extra, wanted in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one} ; extra == "{extra}"' for one in wanted]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + f"\n\n{readme}"


def digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def read_project(path: Path) -> Tuple[Dict[str, Any], List[str]]:
    """The table `project`, and the names of the packages."""
    text = path.read_text(encoding="utf-8")
    try:
        import tomllib
    except ImportError:  # Python 3.9 and 3.10.
        parsed = parse_toml(text)
    else:
        parsed = tomllib.loads(text)
    return parsed["project"], parsed["tool"]["setuptools"]["packages"]


def parse_toml(text: str) -> Dict[str, Any]:
    """As much of TOML as our own files use: tables, strings, lists of strings, one inline table."""
    tables: Dict[str, Any] = {}
    table = tables
    joined = re.sub(r"\[\n(.*?)\n\]", lambda found: "[" + " ".join(found[1].split("\n")) + "]", text, flags=re.S)
    for line in joined.splitlines():
        heading = re.fullmatch(r"\[([\w.-]+)\]", line)
        if heading:
            table = tables
            for part in heading[1].split("."):
                table = table.setdefault(part, {})
        elif "=" in line:
            key, value = (part.strip() for part in line.split("=", 1))
            inline = re.fullmatch(r'\{ *(\w+) = "([^"]*)" *\}', value)
            words = re.findall(r'"([^"]*)"', value)
            table[key] = {inline[1]: inline[2]} if inline else words if value.startswith("[") else "".join(words)
    return tables


def prove(wheels: List[Path]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
            for wheel in wheels:
                check_records(wheel)
            print(f"checked  by their records only: {sys.executable} has no pip")
            return
        words = ["install", "--quiet", "--no-index", "--no-deps", "--target", directory, *map(str, wheels)]
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], check=True)
        program = "import berth, zenml_berth.keeper as k; print(berth.__version__, berth.__file__, k.__file__)"
        # Isolated: nothing but what was installed can be imported.
        code = f"import sys; sys.path.insert(0, {directory!r}); {program}"
        answer = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True).stdout
        if answer.count(directory) != 2:
            raise SystemExit(f"The packages were imported from elsewhere: {answer}")
        print("checked  installed by pip --no-index --no-deps, and imported from there")


def check_records(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        listed = [line.split(",") for line in archive.read(record).decode().splitlines()]
        wrong = [path for path, want, _ in listed if want and digest(archive.read(path)) != want]
    if wrong or {path for path, _, _ in listed} != names:
        raise SystemExit(f"{wheel.name}: its records do not fit: {wrong}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
