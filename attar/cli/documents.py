"""`attar list`, `show`, `merge`, `tag`, `remove` and `reread`: the documents of a library."""

from typing import Annotated, Any

import typer

from attar.cli import options
from attar.cli.output import (
    change_line,
    columns,
    fact_rows,
    one_line,
    print_json,
    print_note,
    print_result,
    printable,
    progress_bar,
)
from attar.errors import OptionError


@options.choosing_documents
def list_documents(
    store: options.StorePath,
    after: Annotated[str | None, typer.Option(help="Only names after this one.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of documents.")] = None,
    as_json: options.AsJson = False,
    **chosen: Any,
) -> None:
    """List documents with their sizes and tags.

    attar list stories --limit 20
    """
    from attar.library.library import Library

    within = options.subset_of(**chosen)
    with Library(store, read_only=True) as library:
        options.check_names(library, within)
        documents = library.documents(after=after, limit=limit, within=within)
        if as_json:
            print_json({"documents": list(documents)})
            return
        print(f"{'tokens':>12}  {'bytes':>10}  name")
        for document in documents:
            if document.fault is not None:
                print(f"{'damaged':>12}  {'':>10}  {one_line(document.name)}: {printable(document.fault)}")
            else:
                missing = f"  (incomplete, without {document.incomplete})" if document.incomplete else ""
                tags = f"  [{printable(', '.join(document.tags))}]" if document.tags else ""
                name = f"{one_line(document.name)}{tags}{missing}"
                print(f"{document.tokens:>12,}  {document.bytes:>10,}  {name}")


def show(store: options.StorePath, name: options.Name, as_json: options.AsJson = False) -> None:
    """Show a document: its size, source, times and text.

    attar show stories emma
    """
    import msgspec

    from attar.library.documents import find_document
    from attar.library.library import Library

    with Library(store, read_only=True) as library:
        document = library.show(find_document(library.store, name))
    fields = msgspec.to_builtins(document)
    text = fields.pop("text")
    labels = {
        "tags": ", ".join(document.tags),
        "metadata": ", ".join(f"{key}: {value}" for key, value in document.metadata.items()),
    }
    rows = fact_rows(fields | labels | {"name": one_line(document.name)})
    facts = columns([row for row in rows if row[1] not in ("", "None")])
    print_result(document, facts if text is None else f"{facts}\n\n{printable(text)}", as_json=as_json)


def merge(
    store: options.StorePath,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the merged document.")],
    names: options.Names,
    title: Annotated[str, typer.Option(help="Title of the merged document.")] = "",
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Merge several documents into a new one.

    Their memories are added; the documents stay.

    attar merge stories austen emma persuasion
    """
    from attar.library.library import Library

    with Library(store, create=False) as library:
        change = library.merge(new, names, title=title, replace=replace)
    print_result(change, change_line(change), as_json=as_json)


def remove(store: options.StorePath, names: options.Names, as_json: options.AsJson = False) -> None:
    """Remove documents: all that are named, or none.

    None is removed if one is missing. Names must be whole.

    attar remove stories emma
    """
    from attar.library.library import Library

    with Library(store, create=False) as library:
        library.remove(*names)
    lines = "\n".join(f"removed {one_line(name)}" for name in names)
    print_result({"removed": names}, lines, as_json=as_json)


def tag(
    store: options.StorePath,
    names: options.Names,
    add: Annotated[list[str] | None, typer.Option(help="A tag to add; may be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A tag to take away; may be repeated.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Add tags to documents, or take them away.

    If one document is missing, none is changed.

    attar tag stories emma persuasion --add austen --remove unread
    """
    from attar.library.library import Library

    if not add and not remove:
        raise OptionError("no tag", "give --add TAG or --remove TAG")
    with Library(store, create=False) as library:
        library.tag(*names, add=add or (), remove=remove or ())
        tags = {name: library.show(name).tags for name in names}
    lines = [f"{one_line(name)}: {printable(', '.join(tags[name])) or 'no tags'}" for name in names]
    print_result({"tags": tags}, "\n".join(lines), as_json=as_json)


def reread(
    store: options.StorePath,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Move a library to another reader.

    All kept texts are read again. Meanwhile the library answers with the old reader, and documents can be added; it
    switches when all texts are read. After an interruption the same command continues.

    attar reread stories
    """
    from attar.library.library import Library

    with Library(store, create=False) as library, progress_bar() as progress:
        try:
            done = library.reread(reader, progress=progress)
        except KeyboardInterrupt:
            print_note("stopped; the library is as it was, and the same command continues from here")
            raise typer.Exit(130) from None
    name = f"{one_line(str(reader or 'answers'))} ({done.reader[:12]})"
    line = f"{done.documents:,} documents have the reader {name}; {done.read:,} were read"
    print_result(done, line, as_json=as_json)
