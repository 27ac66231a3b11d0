// The documents that the server has, as far as they were loaded; the views draw them when they change.

import { listDocuments } from "./server.js";

// As many as the server lists at once.
const PAGE = 1_000;

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

  /** The documents whose names start with these letters, of the ones that were not loaded. */
  async startingWith(letters) {
    if (this.next === null) return [];
    const { documents } = await listDocuments(justBefore(letters), 50);
    const known = new Set(this.documents.map(({ name }) => name));
    return documents.filter(({ name }) => name.startsWith(letters) && !known.has(name));
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

  /** Hide a document that is being deleted, or show it again. */
  hide(name, isLeaving) {
    if (isLeaving) this.leaving.add(name);
    else this.leaving.delete(name);
    this.#changed();
  }

  /** Remove a document. */
  drop(gone) {
    this.documents = this.documents.filter(({ name }) => name !== gone);
    this.total -= 1;
    this.hide(gone, false);
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

/** Fill a <select> with the names of documents, after `first` options; the value stays if it is still there. */
export function fillNames(select, names, first = []) {
  const value = select.value;
  const options = names.map((name) => new Option(name, name));
  select.replaceChildren(...first.map(([word, of]) => new Option(word, of)), ...options);
  select.value = value;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

/** A name directly before this one: a page starts after a name, not at it. */
function justBefore(name) {
  const letters = [...name];
  const last = letters.pop().codePointAt(0);
  const before = last === 0xe000 ? 0xd7ff : last - 1;
  return before < 0 ? letters.join("") : letters.join("") + String.fromCodePoint(before, 0x10ffff);
}
