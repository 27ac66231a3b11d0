"""`attar list`, `show`, `merge` and `remove`: the documents of a library."""

from typing import Annotated

import typer

from attar.cli import arguments
from attar.cli.printing import change_line, columns, print_json, shown


def list_documents(
    store: arguments.StorePath,
    after: Annotated[str | None, typer.Option(help="Only names behind this one.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="So many at most.")] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """List documents in the order of their names, with their tokens and their memories' bytes.

    attar list stories --limit 20
    """
    from attar.library import Library

    with Library(store, read_only=True) as library:
        documents = library.documents(after=after, limit=limit)
        if as_json:
            print_json({"documents": list(documents)})
            return
        print(f"{'tokens':>12}  {'bytes':>10}  name")
        for document in documents:
            print(f"{document.tokens:>12,}  {document.bytes:>10,}  {shown(document.name)}")


def show(store: arguments.StorePath, name: arguments.Name, as_json: arguments.AsJson = False) -> None:
    """Tell what is kept of a document: its memory, its names, its times.

    attar show stories emma
    """
    import msgspec

    from attar.library import Library

    with Library(store, read_only=True) as library:
        document = library.show(name)
    if as_json:
        print_json(document)
        return
    fields = msgspec.to_builtins(document)
    names, text = fields.pop("names"), fields.pop("text")
    rows = [(word, f"{value:,}" if isinstance(value, int) else str(value)) for word, value in fields.items()]
    rows[0] = ("name", shown(name))
    print(columns([row for row in rows if row[1] not in ("", "None")]))
    print(f"{len(names):,} names: {', '.join(map(shown, names))}")
    if text is not None:
        print(f"\n{text}")


def merge(
    store: arguments.StorePath,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the whole.")],
    names: arguments.Names,
    title: Annotated[str, typer.Option(help="A title for it.")] = "",
    replace: arguments.Replace = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Make one memory of several documents, which stay; it answers from all of them.

    attar merge stories austen emma persuasion
    """
    from attar.library import Library

    with Library(store, create=False) as library:
        change = library.merge(new, names, title=title, replace=replace)
    if as_json:
        print_json(change)
    else:
        print(change_line(change))


def remove(store: arguments.StorePath, names: arguments.Names, as_json: arguments.AsJson = False) -> None:
    """Take documents out, all of those named or none.

    attar remove stories emma
    """
    from attar.library import Library

    with Library(store, create=False) as library:
        library.remove(*names)
    if as_json:
        print_json({"removed": names})
    else:
        print("\n".join(f"removed {shown(name)}" for name in names))
