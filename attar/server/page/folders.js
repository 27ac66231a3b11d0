// Folders and tags of documents: a document's folder is the part of its name before the last slash.

/** "letters/2019/rent" → "letters/2019"; "rent" → "". */
export function folderOf(name) {
  return name.slice(0, Math.max(0, name.lastIndexOf("/")));
}

/** "letters/2019/rent" → "rent". */
export function withoutFolder(name) {
  return name.slice(name.lastIndexOf("/") + 1) || name;
}

/** Whether a document lies in a folder, or below it. */
export function isBelow(name, folder) {
  return name.startsWith(`${folder}/`);
}

/** All folders of documents, those above others too, each with how many documents are below it. */
export function foldersOf(documents) {
  const counts = new Map();
  for (const { name } of documents) {
    const parts = folderOf(name).split("/").filter(Boolean);
    for (let end = 1; end <= parts.length; end += 1) add(counts, parts.slice(0, end).join("/"));
  }
  return sorted(counts);
}

/** All tags of documents, each with how many have it. */
export function tagsOf(documents) {
  const counts = new Map();
  for (const { tags } of documents) for (const tag of tags ?? []) add(counts, tag);
  return sorted(counts);
}

function add(counts, key) {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function sorted(counts) {
  return new Map([...counts].sort(([one], [other]) => one.localeCompare(other)));
}
