"""`attar list`, `show`, `merge` and `remove`: the documents of a library."""

from typing import Annotated

import typer

from attar.cli import options
from attar.cli.output import FULL, columns, fact_rows, print_change, print_json, printable, shown


def list_documents(
    store: options.StorePath,
    after: Annotated[str | None, typer.Option(help="Only names after this one.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of documents.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List documents by name, with the number of tokens and the size of the memory in bytes.

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
            if document.fault is not None:
                print(f"{'damaged':>12}  {'':>10}  {shown(document.name)}: {printable(document.fault)}")
            else:
                print(f"{document.tokens:>12,}  {document.bytes:>10,}  {shown(document.name)}")


def show(store: options.StorePath, name: options.Name, as_json: options.AsJson = False) -> None:
    """Show what the library stores about a document: its memory, names and times.

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
    names, text, full = (fields.pop(each) for each in ("names", "text", "names_full"))
    rows = fact_rows(fields)
    rows[0] = ("name", shown(name))
    print(columns([row for row in rows if row[1] not in ("", "None")]))
    print(f"{len(names):,} names{FULL if full else ''}: {', '.join(map(shown, names))}")
    if text is not None:
        print(f"\n{printable(text)}")


def merge(
    store: options.StorePath,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the merged document.")],
    names: options.Names,
    title: Annotated[str, typer.Option(help="Title of the merged document.")] = "",
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Merge the memories of several documents into a new one; the documents stay.

    attar merge stories austen emma persuasion
    """
    from attar.library import Library

    with Library(store, create=False) as library:
        change = library.merge(new, names, title=title, replace=replace)
    print_change(change, as_json=as_json)


def remove(store: options.StorePath, names: options.Names, as_json: options.AsJson = False) -> None:
    """Remove documents: all of those named, or none if one is missing.

    attar remove stories emma
    """
    from attar.library import Library

    with Library(store, create=False) as library:
        library.remove(*names)
    if as_json:
        print_json({"removed": names})
    else:
        print("\n".join(f"removed {shown(name)}" for name in names))
