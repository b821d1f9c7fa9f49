"""Documents can't drift: the README's commands run, the reference is the help, every plan key is explained."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from dpcli.api import plan_schema
from dpcli.cli import main
from dpcli.mechanisms import NAMES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [README, (ROOT / "docs" / "questions.md").read_text()]


def blocks(language: str) -> list[str]:
    return [
        block for page in PAGES for block in re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)
    ]


@pytest.fixture
def in_copy(tmp_path: Path, dpcli: Callable[..., Result]) -> Callable[..., Result]:
    """The command line in a folder that holds what the README speaks of."""
    for folder in ("configs", "sample_data"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return dpcli


def test_the_commands_of_the_readme_run(in_copy: Callable[..., Result], tmp_path: Path) -> None:
    lines = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    ours = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("dpcli ")]
    assert len(ours) >= 4
    for arguments in ours:
        result = in_copy(*arguments, *(["--if-exists", "replace"] if arguments[0] == "release" else []))
        assert result.exit_code == 0, result.stderr


def test_the_python_of_the_readme_runs(
    in_copy: Callable[..., Result], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        in_copy("release", "configs/laplace.yaml", "sample_data/census.csv", "-o", "out.parquet").exit_code
        == 0
    )
    for block in blocks("python"):
        exec(block, {})
        assert "stderr" in capsys.readouterr().out


def test_the_plan_of_the_readme_is_sound(in_copy: Callable[..., Result], tmp_path: Path) -> None:
    for number, block in enumerate(blocks("yaml")):
        path = tmp_path / f"readme{number}.yaml"
        path.write_text(block)
        result = in_copy("plan", "check", path)
        assert result.exit_code == 0, result.stderr


def test_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)(?=[\s`])", "\n".join(blocks("console")))) <= targets
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_reference_is_the_help() -> None:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "cli.md").read_text() == module.reference(), "run `make docs`"


def test_every_command_has_help_with_an_example() -> None:
    def walk(command: click.Command) -> None:
        if isinstance(command, click.Group):
            for child in command.commands.values():
                walk(child)
        else:
            assert "Example" in (command.help or ""), command.name
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help, f"{command.name} {parameter.name}"

    walk(main)


def test_every_plan_key_is_documented() -> None:
    page = (ROOT / "docs" / "plan.md").read_text()
    schema = plan_schema()
    for part in [schema, *schema["$defs"].values()]:
        for key, content in part.get("properties", {}).items():
            assert f"`{key}" in page, key
            assert content.get("description"), key


def test_every_mechanism_has_a_config_and_a_row() -> None:
    for name in NAMES:
        assert (ROOT / "configs" / f"{name}.yaml").exists()
        assert f"| `{name}` |" in README


def test_exit_codes_agree() -> None:
    told = re.findall(r"^\s+(\d  .*)$", main.help or "", flags=re.MULTILINE)
    rows = re.findall(r"^\| (\d) \| (.*) \|$", README, flags=re.MULTILINE)
    assert [f"{code}  {meaning}" for code, meaning in rows[: len(told)]] == told
    assert [code for code, _ in rows[len(told) :]] == [text[0] for text in told]  # what each should trigger
