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
  #loading = null;

  constructor() {
    super();
    this.documents = [];
    this.total = 0;
    this.next = null;
    this.isLoaded = false;
    // Names that are being deleted: they are not shown, and can come back.
    this.leaving = new Set();
  }

  /** The documents that are shown, in the order of their names. */
  get shown() {
    return this.documents.filter(({ name }) => !this.leaving.has(name));
  }

  /** How many documents there are, loaded or not. */
  get count() {
    return this.total - this.leaving.size;
  }

  async load() {
    this.#take(await listDocuments(null, PAGE), []);
  }

  /** Load, unless that is done or being done. */
  async ready() {
    if (this.isLoaded) return;
    this.#loading ??= this.load().finally(() => {
      this.#loading = null;
    });
    await this.#loading;
  }

  /** Load the next documents. */
  async more() {
    this.#take(await listDocuments(this.next, PAGE), this.documents);
  }

  /** Load what is left, unless that is a great many; views draw once, at the end. */
  async all() {
    let [documents, next] = [this.documents, this.next];
    if (next === null) return;
    while (next !== null && documents.length < Math.min(this.total, MOST)) {
      const page = await listDocuments(next, PAGE);
      [documents, next] = [[...documents, ...page.documents], page.next ?? null];
    }
    this.#take({ documents, next, total: this.total }, []);
  }

  /** At most `limit` documents whose name or title contains these letters; not all of them may be loaded here. */
  async matching(letters, limit = MATCHES) {
    const wanted = letters.trim().toLowerCase();
    const { documents } =
      this.next === null || !wanted ? { documents: this.documents } : await listDocuments(null, limit, wanted);
    const fits = ({ name, title }) => `${name}\n${title ?? ""}`.toLowerCase().includes(wanted);
    return documents.filter((document) => !this.leaving.has(document.name) && fits(document)).slice(0, limit);
  }

  /** Insert or update a document, if its place is among the loaded ones. */
  put(document) {
    const others = this.documents.filter(({ name }) => name !== document.name);
    if (others.length === this.documents.length) this.total += 1;
    const at = others.findIndex(({ name }) => name > document.name);
    if (at >= 0) others.splice(at, 0, document);
    else if (this.next === null) others.push(document);
    this.documents = others;
    this.#changed();
  }

  /** Hide documents that are being deleted, or show them again. */
  hide(names, areLeaving) {
    for (const name of names) {
      if (areLeaving) this.leaving.add(name);
      else this.leaving.delete(name);
    }
    this.#changed();
  }

  /** Remove documents. */
  drop(names) {
    const gone = new Set(names);
    this.documents = this.documents.filter(({ name }) => !gone.has(name));
    this.total -= gone.size;
    this.hide(names, false);
  }

  #take({ documents, next, total }, before) {
    this.documents = [...before, ...documents];
    this.next = next ?? null;
    this.total = total ?? this.documents.length;
    this.isLoaded = true;
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
