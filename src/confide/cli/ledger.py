"""confide ledger: create a privacy budget, and show what is left of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from confide.privacy.ledger import Account, Amount, Spend, Total

app = typer.Typer(name="ledger", help="Keep a privacy budget in a file.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The ledger file.", show_default=False)]


@app.command()
def init(
    path: File,
    epsilon: Annotated[float, typer.Option(help="The total epsilon.", show_default=False)],
    delta: Annotated[
        float, typer.Option(help="The total delta; 0 excludes Gaussian noise.", show_default=False)
    ],
    relation: Annotated[
        str,
        typer.Option(
            help="Neighbouring data sets: replace (one user is replaced) or null (one user contributes zero)."
        ),
    ] = "replace",
    others_epsilon: Annotated[
        float,
        typer.Option(
            help="Part of the total epsilon that is reserved for noise that is not Gaussian."
        ),
    ] = 0.0,
    others_delta: Annotated[
        float,
        typer.Option(
            help="Part of the total delta that is reserved for noise that is not Gaussian."
        ),
    ] = 0.0,
) -> None:
    """Create a ledger. The totals cannot be changed later, and an existing file is never overwritten."""
    from confide.privacy.ledger import Ledger

    ledger = Ledger.init(
        path,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        others_epsilon=others_epsilon,
        others_delta=others_delta,
    )
    typer.echo(f"created {path}: {_total(ledger.account)}")


@app.command()
def show(
    path: File,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show all spends and the remaining budget."""
    from confide.privacy.ledger import Ledger

    ledger = Ledger(path)
    account, spends = ledger.account, ledger.spends
    if as_json:
        typer.echo(json.dumps(_record(account, spends), indent=2))
        return
    if spends:
        _print_table(spends)
    spent, times = account.spent, "1 spend" if len(spends) == 1 else f"{len(spends)} spends"
    parts = f"mu={spent.mu:.6g} of Gaussian noise and (epsilon={spent.epsilon:.6g}, delta={spent.delta:.6g}) of other noise"
    split = (
        " The parts of one split contain different users: the largest of their losses counts, not the sum."
        if any(spend.part for spend in spends)
        else ""
    )
    so_far = f"nominally epsilon={account.epsilon:.6g} at delta={account.total.delta:g} in {times}: {parts}"
    _print_lines(
        {
            "guaranteed:": _total(account),
            "spent:": so_far,
            "left:": account.left,
            "note:": NOMINAL + split,
        }
    )


NOMINAL = (
    "The total is the guarantee for all releases together, also if they were chosen adaptively. The amount spent is nominal: it would be a "
    "guarantee only if all releases, and when to stop, had been fixed before the first one."
)


def _total(account: "Account") -> str:
    total = account.total
    aside = f", of which (epsilon={total.others_epsilon:g}, delta={total.others_delta:g}) is reserved for noise that is not Gaussian"
    set_aside = total.others_epsilon > 0 or total.others_delta > 0
    return f"epsilon={total.epsilon:g} at delta={total.delta:g}, relation {total.relation}" + (
        aside if set_aside else ""
    )


def _print_table(spends: "tuple[Spend, ...]") -> None:
    """Three lines for a spend, not columns: ids and descriptions are too long to stand side by side on a narrow terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("spend", overflow="fold")
    splits = _number_splits(spends)
    for spend in spends:
        loss = ", ".join(f"{name}={value:.6g}" for name, value in _parameters(spend))
        when = spend.when.replace("T", " ").removesuffix("+00:00")
        people = f"\npeople: {_people(spend, splits)}" if spend.part else ""
        lines = f"{spend.what}\n{loss}, relation {spend.relation.value}, {_state(spend)}{people}\nid {spend.id}"
        table.add_row(when, Text(lines))  # Text: a name in [brackets] is no markup
    Console().print(table)


def _print_lines(lines: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1, 0, 0))
    for name, text in lines.items():
        grid.add_row(name, Text(text))
    Console().print(grid)


def _record(account: "Account", spends: "tuple[Spend, ...]") -> dict[str, Any]:
    splits = _number_splits(spends)
    return {
        "total": _total_record(account.total),
        "guaranteed": {"epsilon": account.total.epsilon, "delta": account.total.delta},
        "spent": {
            **_amount(account.spent),
            "epsilon_at_total_delta": account.epsilon,
            "nominal": True,
        },
        "note": NOMINAL,
        "remaining": {**_amount(account.remaining), "divided": account.caps is not None},
        "spends": [
            {
                "when": spend.when,
                "what": spend.what,
                "id": spend.id,
                "loss": _loss(spend),
                "relation": spend.relation,
                "state": _state(spend),
                "part": _part(spend, splits),
            }
            for spend in spends
        ],
    }


def _parameters(spend: "Spend") -> list[tuple[str, float]]:
    return [(name, value) for name, value in _loss(spend).items() if name != "kind"]


def _loss(spend: "Spend") -> dict[str, Any]:
    from confide.privacy.loss import loss_to_json

    return loss_to_json(spend.loss)


def _total_record(total: "Total") -> dict[str, Any]:
    return {
        "epsilon": total.epsilon,
        "delta": total.delta,
        "relation": total.relation,
        "others_epsilon": total.others_epsilon,
        "others_delta": total.others_delta,
    }


def _amount(amount: "Amount") -> dict[str, float]:
    return {"mu": amount.mu, "epsilon": amount.epsilon, "delta": amount.delta}


_PARTS = {
    "learn": "the learning part: the policy is learned from these users",
    "test": "the test part: held-out users, on whom it is tested",
}


def _number_splits(spends: "tuple[Spend, ...]") -> dict[str, int]:
    """Numbers for the splits. Their names are computed from the sizes and times of private files, and stay in the ledger."""
    names = dict.fromkeys(spend.part[0] for spend in spends if spend.part is not None)
    return {name: number for number, name in enumerate(names, 1)}


def _part(spend: "Spend", splits: dict[str, int]) -> dict[str, Any] | None:
    if spend.part is None:
        return None
    return {"split": splits[spend.part[0]], "name": spend.part[1], "people": _people(spend, splits)}


def _people(spend: "Spend", splits: dict[str, int]) -> str:
    """Of a spend on a part of a split: whose data were used, in plain words."""
    assert spend.part is not None
    split, name = spend.part
    return f"{_PARTS.get(name, f'part {name}')}, of split {splits[split]}"


def _state(spend: "Spend") -> str:
    return "released" if spend.released else "pending"  # pending: charged, and not released yet
