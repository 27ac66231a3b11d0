// The list of documents: folders, order, search, and several of them at once.

import { marked } from "./answers.js";
import { askFor, byId, element, say } from "./elements.js";
import { age, bytes, count, counted, words, written } from "./figures.js";
import { folderOf, tagsIn } from "./library.js";
import { address, go } from "./routes.js";
import { search, tagDocuments } from "./server.js";

// Rows that are drawn at once, and the milliseconds without a key after which texts are searched.
const ROWS = 100;
const PAUSE = 250;

// By name: a folder's own documents before those of the folders in it.
const ORDERS = {
  name: (one, other) => compare(folderOf(one.name), folderOf(other.name)) || compare(one.name, other.name),
  changed: (one, other) => compare(other.changed, one.changed),
  date: (one, other) => compare(other.date ?? "", one.date ?? ""),
  tokens: (one, other) => other.tokens - one.tokens,
};

/** Start the view; `append(name)` and `remove(...names)` are called on clicks. */
export function startDocuments({ library, append, remove }) {
  const [list, filter, more] = [byId("document-list"), byId("filter"), byId("more-documents")];
  const [folder, tag, order] = [byId("folder"), byId("tag"), byId("order")];
  // The names of chosen documents, which are asked, searched, tagged or deleted together.
  const chosen = new Set();
  let rows = ROWS;
  // Of names that match: the ones that were not loaded with the list.
  let others = [];
  let timer = 0;
  let figures = {};

  function matching() {
    const wanted = filter.value.trim().toLowerCase();
    const matches = ({ name, title, tags }) =>
      `${name}\n${title ?? ""}`.toLowerCase().includes(wanted) &&
      (!folder.value || name.startsWith(`${folder.value}/`)) &&
      (!tag.value || tags?.includes(tag.value));
    return [...library.documents, ...others].filter(matches).sort(ORDERS[order.value]);
  }

  /** The documents whose texts are searched; null: all. */
  function within() {
    if (chosen.size) return { names: [...chosen] };
    if (!folder.value && !tag.value) return null;
    return { folder: folder.value, tags: tag.value ? [tag.value] : [] };
  }

  function draw() {
    fill(folder, "All folders", library.folders, "/");
    fill(tag, "All tags", library.tags);
    byId("folder-names").replaceChildren(...[...library.folders.keys()].map((name) => new Option("", name)));
    drawChosen();
    drawFigures();
    const found = matching();
    const shown = found.slice(0, rows);
    const isGrouped = order.value === "name";
    list.replaceChildren(
      ...shown.flatMap((document, at) => {
        const own = folderOf(document.name);
        const isNew = isGrouped && own && (at === 0 || folderOf(shown[at - 1].name) !== own);
        return [...(isNew ? [heading(own)] : []), row(document, isGrouped)];
      }),
    );
    more.hidden = found.length <= rows;
    const none = byId("no-documents");
    none.hidden = found.length > 0 || !library.isLoaded;
    none.textContent = library.count ? "No name matches." : "There are no documents yet.";
    byId("tools").hidden = library.isLoaded && library.count === 0;
    return found;
  }

  function drawChosen() {
    const there = new Set(library.documents.map(({ name }) => name));
    for (const name of chosen) if (!there.has(name)) chosen.delete(name);
    byId("chosen").hidden = !chosen.size;
    byId("chosen-line").textContent = `${count(chosen.size)} chosen`;
  }

  function drawFigures() {
    const parts = library.isLoaded ? [counted(library.count, "document")] : [];
    if (figures.file_bytes) parts.push(`${bytes(figures.file_bytes)} on disk`);
    if (figures.questions) parts.push(`${counted(figures.questions, "question")} answered`);
    if (figures.signatures) {
      const { done, total } = figures.signatures;
      parts.push(`being prepared for search: ${count(done)} of ${count(total)}`);
    }
    byId("library-facts").textContent = parts.join(" · ");
  }

  /** Show the figures of the library. */
  function showFigures(status) {
    figures = status;
    drawFigures();
  }

  function heading(own) {
    const choose = () => {
      folder.value = own;
      changed();
    };
    const title = element("button", { type: "button", class: "link", onclick: choose }, `${own}/`);
    return element("li", { class: "folder" }, title);
  }

  function row({ name, title, tokens, date, changed: moment, fault, tags = [] }, isGrouped) {
    const when = element("time", { datetime: moment, title: new Date(moment).toLocaleString() }, age(moment));
    const sizes = [...(date ? [written(date)] : []), words(tokens)].map((text) => element("span", {}, text));
    const labels = tags.map((each) => element("span", { class: "tag" }, each));
    const facts = fault ? [`damaged: ${fault}`] : [...sizes, when, ...labels];
    const known = title && title !== name ? [element("span", { class: "title" }, title)] : [];
    const box = element("input", { type: "checkbox", "aria-label": `Choose ${name}` });
    box.checked = chosen.has(name);
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(name);
      else chosen.delete(name);
      drawChosen();
    });
    const asking = { class: "button quiet small", href: address("ask", { document: name }), "aria-label": `Ask ${name}` };
    return element(
      "li",
      { "data-name": name },
      element("span", { class: "choose" }, box),
      element(
        "a",
        { class: "document", href: address("document", { name }), title: name },
        element("span", { class: "name" }, isGrouped ? name.slice(name.lastIndexOf("/") + 1) || name : name),
        ...known,
        element("span", { class: "facts" }, ...facts),
      ),
      element(
        "span",
        { class: "actions" },
        element("a", asking, "Ask"),
        action("Append", `Append to ${name}`, () => append(name)),
        action("Delete", `Delete ${name}`, () => remove(name)),
      ),
    );
  }

  function action(word, label, onclick) {
    return element("button", { type: "button", class: "quiet small changes", "aria-label": label, onclick }, word);
  }

  /** Ask for the tags that all chosen documents have, and change those of each. */
  function tagChosen() {
    const documents = library.documents.filter(({ name }) => chosen.has(name));
    const [{ tags: first }, ...rest] = documents;
    const common = first.filter((each) => rest.every(({ tags }) => tags.includes(each)));
    const asked = {
      title: `Tags of ${counted(documents.length, "document")}`,
      about: "Those that all of them have. A question, a search or a list can be about one tag.",
      label: "Tags, with commas between them",
      type: "text",
      value: common.join(", "),
      action: "Save",
    };
    askFor(asked, async (given) => {
      const wanted = tagsIn(given);
      const removed = common.filter((each) => !wanted.includes(each));
      await tagDocuments(documents.map(({ name }) => name), wanted, removed);
      for (const document of documents) {
        const kept = document.tags.filter((each) => !removed.includes(each));
        library.put({ ...document, tags: [...new Set([...kept, ...wanted])] });
      }
    });
  }

  /** Look for what was typed: in names that were not loaded, and in texts. */
  async function look() {
    const wanted = filter.value.trim();
    others = [];
    if (!wanted) {
      byId("passages").hidden = true;
      draw();
      return;
    }
    try {
      const [named, found] = await Promise.all([library.matching(wanted), search(wanted, within())]);
      if (wanted !== filter.value.trim()) return;
      const known = new Set(library.documents.map(({ name }) => name));
      others = named.filter(({ name }) => !known.has(name));
      showPassages(found, wanted);
      byId("filter-said").textContent = `${counted(draw().length, "name")} match.`;
    } catch (fault) {
      say(byId("library-problem"), fault);
    }
  }

  function showPassages(found, wanted) {
    byId("passages").hidden = !found.length;
    // Search always finds something: what has no word of the query says so itself.
    const words = wanted.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [];
    const texts = found.flatMap(({ sentences }) => sentences.map(({ text }) => text.toLowerCase()));
    const isSaid = !words.length || texts.some((text) => words.some((word) => text.includes(word)));
    byId("passages-heading").textContent = isSaid ? "In the texts" : "The nearest; none has these words as written";
    byId("passage-list").replaceChildren(
      ...found.flatMap(({ document, sentences }) => sentences.map((sentence) => passage(document, sentence, wanted))),
    );
  }

  /** Focus a document's row, or the next one if it was removed. */
  function focusNear(name) {
    const items = [...list.children].filter((child) => child.dataset.name !== undefined);
    const near = items.find((child) => child.dataset.name >= name) ?? items.at(-1);
    (near?.querySelector(".document") ?? byId("files")).focus();
  }

  function changed() {
    rows = ROWS;
    draw();
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  }

  filter.addEventListener("input", changed);
  for (const select of [folder, tag, order]) select.addEventListener("change", changed);
  byId("chosen-all").addEventListener("click", () => {
    for (const { name } of matching()) chosen.add(name);
    draw();
  });
  byId("chosen-clear").addEventListener("click", () => {
    chosen.clear();
    draw();
  });
  byId("chosen-ask").addEventListener("click", () => go("ask", { chosen: JSON.stringify([...chosen]) }));
  byId("chosen-tag").addEventListener("click", tagChosen);
  byId("chosen-delete").addEventListener("click", () => remove(...chosen));
  more.addEventListener("click", () => {
    rows += ROWS;
    byId("library-said").textContent = `${count(Math.min(rows, draw().length))} documents are shown.`;
  });
  library.addEventListener("change", draw);

  return { focusNear, showFigures };
}

/** A sentence that a search found, as a link to its place. */
function passage(name, { text, start, end, place }, wanted) {
  return element(
    "li",
    { class: "answer" },
    element(
      "a",
      { class: "card", href: address("document", { name, start, end, phrase: text }) },
      element("q", { class: "quote" }, ...marked(text, wanted)),
      element("p", { class: "source" }, element("span", { class: "name" }, name), place ?? ""),
    ),
  );
}

/** The options of a select, whose value stays if it is still there; one without a choice is not shown. */
function fill(select, all, counts, after = "") {
  const { value } = select;
  const options = [...counts].map(([key, number]) => new Option(`${key}${after} (${count(number)})`, key));
  select.replaceChildren(new Option(all, ""), ...options);
  select.value = counts.has(value) ? value : "";
  select.hidden = !counts.size;
}

function compare(one, other) {
  return one < other ? -1 : Number(one > other);
}
