// The documents that the server has, as far as they were loaded; the views draw them when they change.

import { listDocuments } from "./server.js";

// As many as the server lists at once.
const PAGE = 1_000;
// As many as are loaded to be sorted; of more, the first by name.
const MOST = 20_000;
// Names that are offered while one types.
const MATCHES = 50;

/** The list of documents; a "change" event follows each change. */
export class Library extends EventTarget {
  // In the order of their names.
  documents = [];
  // How many there are, loaded or not.
  count = 0;
  isLoaded = false;
  #loading = null;

  get isComplete() {
    return this.documents.length === this.count;
  }

  /** Load the list, unless that is being done; views draw its first documents while others are on their way. */
  async load() {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = null;
    });
    await this.#loading;
  }

  async #load() {
    let page = await listDocuments(null, PAGE);
    this.#take(page.documents, page.total);
    const documents = [...page.documents];
    while (page.next && documents.length < MOST) {
      page = await listDocuments(page.next, PAGE);
      documents.push(...page.documents);
    }
    if (documents.length > this.documents.length) this.#take(documents, page.total);
  }

  /** At most `limit` documents whose name or title contains these letters; not all of them may be loaded here. */
  async matching(letters, limit = MATCHES) {
    const wanted = letters.trim().toLowerCase();
    const { documents } = this.isComplete || !wanted ? this : await listDocuments(null, limit, wanted);
    const fits = ({ name, title }) => `${name}\n${title ?? ""}`.toLowerCase().includes(wanted);
    return documents.filter(fits).slice(0, limit);
  }

  /** All folders of documents, those above others too, each with how many documents are below it. */
  get folders() {
    return counted(this.documents.flatMap(({ name }) => foldersOf(name)));
  }

  /** All tags of documents, each with how many have it. */
  get tags() {
    return counted(this.documents.flatMap(({ tags }) => tags ?? []));
  }

  /** Insert or update a document, if its place is among the loaded ones. */
  put(document) {
    const [others, wasComplete] = [this.documents.filter(({ name }) => name !== document.name), this.isComplete];
    if (others.length === this.documents.length) this.count += 1;
    const at = others.findIndex(({ name }) => name > document.name);
    if (at >= 0) others.splice(at, 0, document);
    else if (wasComplete) others.push(document);
    this.documents = others;
    this.#changed();
  }

  /** Remove documents. */
  drop(names) {
    const gone = new Set(names);
    this.documents = this.documents.filter(({ name }) => !gone.has(name));
    this.count -= gone.size;
    this.#changed();
  }

  #take(documents, count) {
    Object.assign(this, { documents, count, isLoaded: true });
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** The folder of a document, the part of its name before the last slash: "letters/2019/rent" → "letters/2019". */
export function folderOf(name) {
  return name.slice(0, Math.max(0, name.lastIndexOf("/")));
}

/** "letters/2019/rent" → ["letters", "letters/2019"] */
function foldersOf(name) {
  const parts = folderOf(name).split("/").filter(Boolean);
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

/** Each key with how often it comes, in the order of the alphabet. */
function counted(keys) {
  const counts = new Map();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return new Map([...counts].sort(([one], [other]) => one.localeCompare(other)));
}

/** "paid, new" → ["paid", "new"] */
export function tagsIn(written) {
  return [...new Set(written.split(",").map((tag) => tag.trim()).filter(Boolean))];
}
