// Where a question looks for its answer: in all documents, one of them, a folder, a tag, or some that were chosen.

import { byId } from "./elements.js";
import { counted } from "./figures.js";
import { foldersOf, tagsOf } from "./folders.js";

// Folders and tags that are offered while one types.
const OFFERED = 12;

/** Start the field; `changed()` is called when the chosen documents were let go. */
export function startScope({ library, changed }) {
  const [field, clear] = [byId("scope"), byId("scope-clear")];
  let chosen = [];

  /** Show what an address has: a name, "folder/" or "#tag" as `document`, names as JSON in `chosen`. */
  function show({ document = "", chosen: written = "" }) {
    chosen = namesIn(written);
    field.value = chosen.length ? counted(chosen.length, "document") : document;
    field.readOnly = chosen.length > 0;
    clear.hidden = !chosen.length;
    offer();
  }

  /** What an address has. */
  function values() {
    return chosen.length ? { chosen: JSON.stringify(chosen) } : { document: field.value.trim() };
  }

  /** What the server is asked about: a document, or a subset, or neither. */
  function subject() {
    const typed = field.value.trim();
    if (chosen.length) return { document: null, within: { names: chosen } };
    if (!typed) return { document: null, within: null };
    const isName = library.documents.some(({ name }) => name === typed);
    if (!isName && typed.endsWith("/")) return { document: null, within: { folder: typed } };
    if (!isName && typed.startsWith("#")) return { document: null, within: { tags: [typed.slice(1)] } };
    return { document: typed, within: null };
  }

  /** Offer folders, tags and documents that fit what is typed. */
  async function offer() {
    const typed = field.value;
    const found = await library.matching(typed).catch(() => []);
    if (typed !== field.value) return;
    const wanted = typed.trim().toLowerCase();
    const fits = (word) => word.toLowerCase().includes(wanted);
    const groups = [...foldersOf(library.shown).keys()].filter(Boolean).map((folder) => `${folder}/`);
    groups.push(...[...tagsOf(library.shown).keys()].map((tag) => `#${tag}`));
    const options = groups.filter(fits).slice(0, OFFERED).map((value) => option(value, ""));
    options.push(...found.map(({ name, title }) => option(name, title && title !== name ? title : "")));
    byId("scope-names").replaceChildren(...options);
  }

  field.addEventListener("input", offer);
  clear.addEventListener("click", () => {
    show({});
    field.focus();
    changed();
  });

  return { show, values, subject, offer };
}

function option(value, title) {
  const made = new Option(title, value);
  made.value = value;
  return made;
}

function namesIn(written) {
  try {
    const names = JSON.parse(written);
    return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
  } catch {
    return [];
  }
}
