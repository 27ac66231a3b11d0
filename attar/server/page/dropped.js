// The files of a drop, those in folders too, each with its path below what was dropped.

// What programs leave in folders.
const LEFT = /^(\.|~\$|Thumbs\.db$|desktop\.ini$)/i;

/** Files and their paths. */
export async function dropped({ items, files }) {
  // All entries are asked for at once: they are gone after the first wait.
  const entries = [...items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry?.() ?? null);
  const found = [...files].map((file, at) =>
    entries[at]?.isDirectory ? filesBelow(entries[at]) : [{ file, path: file.name }],
  );
  return (await Promise.all(found)).flat();
}

async function filesBelow(folder) {
  const found = [];
  for (const entry of await entriesOf(folder)) {
    if (LEFT.test(entry.name)) continue;
    if (entry.isDirectory) found.push(...(await filesBelow(entry)));
    else found.push({ file: await fileOf(entry), path: entry.fullPath.replace(/^\//, "") });
  }
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** All entries of a folder, of which a browser reads a hundred at a time. */
async function entriesOf(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return all;
    all.push(...some);
  }
}

function fileOf(entry) {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
