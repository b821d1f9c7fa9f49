"""What SQL has and a release can't answer: each with a sentence that names it and what to do instead."""

from __future__ import annotations

from sqlglot import exp

from dpcli.errors import QueryError
from dpcli.query.sql import Node, not_a_question, parse_statements, unnested, written

_CLAUSES = ("expressions", "from", "where", "group", "order", "limit", "offset")
# Parts of a SELECT by sqlglot's names: how SQL calls each, and what to do instead.
_REFUSED = {
    "with": ("WITH", "ask its parts one after the other"),
    "distinct": ("DISTINCT", "GROUP BY gives every group once"),
    "joins": ("JOIN or several tables", "a release is one table, so name it alone"),
    "laterals": ("LATERAL", "a release is one table, so name it alone"),
    "pivots": ("PIVOT", "use GROUP BY with several attributes"),
    "having": ("HAVING", "use ORDER BY with LIMIT, or leave groups out of the answer afterwards"),
    "windows": ("WINDOW", "use GROUP BY, and calculate from the answer"),
    "qualify": ("QUALIFY", "use ORDER BY with LIMIT, or leave groups out of the answer afterwards"),
    "into": ("INTO", "a release is only read, so take it out"),
    "locks": ("FOR UPDATE or FOR SHARE", "a release is only read, so take it out"),
    "sample": ("a sample of the rows", "a release holds no rows, so take it out"),
}


def single_statement(text: str) -> Node:
    """Parse one SELECT; say what the text is if it is anything else."""
    statements = parse_statements(text)
    if statements is None:
        raise QueryError(
            f"Cannot read the SQL {text!r}. Write it as in SELECT sex, COUNT(*) WHERE age >= 65 GROUP BY sex."
            " Put names with blanks in double quotes, text in single ones."
        )
    if not statements:
        raise QueryError("The SQL is empty; write a statement such as SELECT COUNT(*).")
    if len(statements) > 1:
        raise QueryError("Give one SELECT at a time, and nothing after it.")
    (node,) = statements
    if isinstance(node, exp.SetOperation):
        raise QueryError(f"Cannot answer {node.key.upper()}: ask each SELECT by itself.")
    if isinstance(node, exp.Subquery):
        raise QueryError("Write the SELECT without parentheses around it.")
    if isinstance(node, exp.Select):
        return node
    if isinstance(node, exp.Condition | exp.Alias):
        raise QueryError(f"{written(node)!r} is no SELECT; write SELECT COUNT(*) WHERE …, or drop --sql.")
    raise not_a_question(node)


def checked_select(select: Node) -> dict[str, Node]:
    """Return the clauses of a SELECT by name, all others refused."""
    parts = {key.rstrip("_"): value for key, value in select.args.items() if value}
    for key in parts:
        if key not in _CLAUSES:
            name, instead = _REFUSED.get(key, (key.replace("_", " ").upper(), "take it out"))
            raise QueryError(f"Cannot answer {name}: {instead}.")
    for node in select.find_all(exp.Query):
        if node is not select:
            raise QueryError("Cannot answer a SELECT within a SELECT; ask them one after the other.")
    if "from" in parts:
        _check_table(parts["from"].this)
    if "group" in parts and set(_given(parts["group"])) != {"expressions"}:
        raise QueryError("Cannot answer ALL, ROLLUP, CUBE or totals in GROUP BY; list the attributes.")
    if "limit" in parts and (
        not isinstance(parts["limit"], exp.Limit) or set(_given(parts["limit"])) != {"expression"}
    ):
        raise QueryError(f"Cannot answer {written(parts['limit']).strip()}; write LIMIT and a whole number.")
    return parts


def _given(node: Node) -> list[str]:
    return [key for key, value in node.args.items() if value]


def _check_table(table: Node) -> None:
    """Refuse all but a table's name, with or without an alias."""
    if isinstance(table, exp.Table):
        for key in _given(table):
            if key in _REFUSED:
                raise QueryError(f"Cannot answer {_REFUSED[key][0]}: {_REFUSED[key][1]}.")
    named = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if not named or not set(_given(table)) <= {"this", "db", "catalog", "alias"} or table.alias_column_names:
        raise QueryError(f"Cannot answer FROM {written(table)}: FROM takes the name of the release alone.")


def refused_column(node: Node) -> QueryError:
    """Return the error for what is neither an attribute nor a total that a release can answer."""
    text = written(node)
    inner = unnested(node.this) if node.key in ("count", "sum", "avg") else None
    if isinstance(node, exp.Star | exp.Column):
        told = "a release holds no rows; name attributes and totals, as in SELECT sex, COUNT(*) GROUP BY sex"
    elif isinstance(node, exp.Window):
        told = "totals have no OVER; use GROUP BY, and calculate from the answer"
    elif isinstance(node, exp.Filter):
        told = "totals have no FILTER; put the condition into WHERE"
    elif isinstance(inner, exp.Distinct):
        told = "totals have no DISTINCT; GROUP BY the attribute and count the groups"
    elif node.key == "count":
        told = "COUNT takes * or one attribute"
    elif inner is not None:
        told = f"{node.key.upper()} takes one attribute by itself"
    elif node.find(exp.AggFunc) not in (None, node):
        told = "select the totals by themselves, and calculate from the answer"
    elif isinstance(node, exp.Func) and not isinstance(node, exp.Connector):
        told = "the functions are COUNT, SUM and AVG"
    else:
        told = "a column is an attribute, COUNT(*), COUNT(…), SUM(…) or AVG(…)"
    return QueryError(f"Cannot answer {text}: {told}.")
