"""confide ledger: create a privacy budget, and show what is left of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.log_options import Relation
from confide.cli.options import AsJson

if TYPE_CHECKING:
    from confide.privacy.ledger import Account, Amount, Spend, Total

LedgerFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The ledger file.", show_default=False)
]
NOMINAL = (
    "The total is the guarantee for all releases together, also if they were chosen adaptively. "
    "The amount spent is nominal: it would be a guarantee only if all releases, and when to stop, "
    "had been fixed before the first one."
)
# Whose data a spend on a part of a split log used.
_PARTS = {
    "learn": "the learning part: the policy is learned from these users",
    "test": "the test part: held-out users, on whom it is tested",
}
_TOTAL_PANEL = "Total budget"
_OTHERS_PANEL = "Reserve for noise that is not Gaussian"


def init(
    path: LedgerFile,
    epsilon: Annotated[
        float,
        typer.Option(help="The total epsilon.", show_default=False, rich_help_panel=_TOTAL_PANEL),
    ],
    delta: Annotated[
        float,
        typer.Option(
            help="The total delta; 0 excludes Gaussian noise.",
            show_default=False,
            rich_help_panel=_TOTAL_PANEL,
        ),
    ],
    relation: Relation = "replace",
    others_epsilon: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="The part of the total epsilon that is reserved.",
            rich_help_panel=_OTHERS_PANEL,
        ),
    ] = 0.0,
    others_delta: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="The part of the total delta that is reserved.",
            rich_help_panel=_OTHERS_PANEL,
        ),
    ] = 0.0,
) -> None:
    """Create a ledger with a total budget.

    The totals cannot be changed later, and an existing file is never overwritten.

    Example:
        confide ledger init budget.json --epsilon 4 --delta 1e-5
    """
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


def show(path: LedgerFile, as_json: AsJson = False) -> None:
    """Show all spends and the remaining budget.

    Example:
        confide ledger show budget.json
    """
    from confide.privacy.ledger import Ledger

    ledger = Ledger(path)
    account = ledger.account
    spends = ledger.spends
    if as_json:
        typer.echo(json.dumps(_record(account, spends), indent=2))
        return
    if spends:
        _print_table(spends)
    spent = account.spent
    parts = (
        f"mu={spent.mu:.6g} of Gaussian noise and "
        f"(epsilon={spent.epsilon:.6g}, delta={spent.delta:.6g}) of other noise"
    )
    times = "1 spend" if len(spends) == 1 else f"{len(spends)} spends"
    so_far = (
        f"nominally epsilon={account.epsilon:.6g} at delta={account.total.delta:g} "
        f"in {times}: {parts}"
    )
    split = ""
    if any(spend.part for spend in spends):
        split = (
            " The parts of one split contain different users: "
            "the largest of their losses counts, not the sum."
        )
    _print_lines(
        {
            "guaranteed:": _total(account),
            "spent:": so_far,
            "left:": account.left,
            "note:": NOMINAL + split,
        }
    )


def _total(account: "Account") -> str:
    total = account.total
    guarantee = f"epsilon={total.epsilon:g} at delta={total.delta:g}, relation {total.relation}"
    if total.others_epsilon == 0 and total.others_delta == 0:
        return guarantee
    reserve = f"(epsilon={total.others_epsilon:g}, delta={total.others_delta:g})"
    return f"{guarantee}, of which {reserve} is reserved for noise that is not Gaussian"


def _print_table(spends: "tuple[Spend, ...]") -> None:
    """Print a few lines for each spend.

    They are not columns, because ids and descriptions are too long to stand side by side on a
    narrow terminal.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("spend", overflow="fold")
    splits = _number_splits(spends)
    for spend in spends:
        parameters = [(name, value) for name, value in _loss(spend).items() if name != "kind"]
        loss = ", ".join(f"{name}={value:.6g}" for name, value in parameters)
        lines = [spend.what, f"{loss}, relation {spend.relation.value}, {_state(spend)}"]
        if spend.part:
            lines.append(f"users: {_users(spend, splits)}")
        lines.append(f"id {spend.id}")
        when = spend.when.replace("T", " ").removesuffix("+00:00")
        # `Text`, because a name in [brackets] is no markup.
        table.add_row(when, Text("\n".join(lines)))
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


def _number_splits(spends: "tuple[Spend, ...]") -> dict[str, int]:
    """Numbers that stand for the splits.

    The names of splits stay in the ledger, because they are computed from the sizes and times of
    private files.
    """
    names = dict.fromkeys(spend.part[0] for spend in spends if spend.part is not None)
    return {name: number for number, name in enumerate(names, 1)}


def _part(spend: "Spend", splits: dict[str, int]) -> dict[str, Any] | None:
    if spend.part is None:
        return None
    split, name = spend.part
    return {"split": splits[split], "name": name, "people": _users(spend, splits)}


def _users(spend: "Spend", splits: dict[str, int]) -> str:
    """Whose data a spend on a part of a split used, in plain words."""
    assert spend.part is not None
    split, name = spend.part
    return f"{_PARTS.get(name, f'part {name}')}, of split {splits[split]}"


def _state(spend: "Spend") -> str:
    # A pending spend is charged, and not released yet.
    return "released" if spend.released else "pending"
