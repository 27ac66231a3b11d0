// The list of documents: folders, order, search, and several of them at once.

import { marked } from "./answers.js";
import { startChoosing } from "./choosing.js";
import { byId, element, say, working } from "./elements.js";
import { age, bytes, count, counted, words, written } from "./figures.js";
import { folderOf, foldersOf, isBelow, tagsOf, withoutFolder } from "./folders.js";
import { address } from "./routes.js";
import { search } from "./server.js";

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
  const problem = byId("library-problem");
  const choice = startChoosing({ library, remove, cleared: draw });
  let rows = ROWS;
  // Of names that match: the ones that were not loaded with the list.
  let others = [];
  let timer = 0;
  let figures = {};

  function matching() {
    const wanted = filter.value.trim().toLowerCase();
    const all = [...library.shown, ...others.filter(({ name }) => !library.leaving.has(name))];
    const matches = ({ name, title, tags }) =>
      `${name}\n${title ?? ""}`.toLowerCase().includes(wanted) &&
      (!folder.value || isBelow(name, folder.value)) &&
      (!tag.value || tags?.includes(tag.value));
    return all.filter(matches).sort(ORDERS[order.value]);
  }

  /** The documents whose texts are searched; null: all. */
  function within() {
    if (choice.names.size) return { names: [...choice.names] };
    if (!folder.value && !tag.value) return null;
    return { folder: folder.value, tags: tag.value ? [tag.value] : [] };
  }

  function draw() {
    choice.draw();
    drawSelects();
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
    more.hidden = found.length <= rows && (library.next === null || filter.value.trim() !== "");
    drawFacts();
    const none = byId("no-documents");
    none.hidden = found.length > 0 || !library.isLoaded;
    none.textContent = library.count ? "No name matches." : "There are no documents yet.";
    byId("tools").hidden = library.isLoaded && library.count === 0;
    return found;
  }

  function drawSelects() {
    fill(folder, "All folders", foldersOf(library.shown), "/");
    fill(tag, "All tags", tagsOf(library.shown));
    byId("folder-names").replaceChildren(...[...folder.options].filter(({ value }) => value).map(({ value }) => new Option("", value)));
  }

  function drawFacts() {
    const parts = library.isLoaded ? [counted(library.count, "document")] : [];
    if (figures.file_bytes) parts.push(`${bytes(figures.file_bytes)} on disk`);
    if (figures.questions) parts.push(`${counted(figures.questions, "question")} answered`);
    if (figures.signatures) {
      const { done, total } = figures.signatures;
      parts.push(`being prepared for search: ${count(done)} of ${count(total)}`);
    }
    byId("library-facts").textContent = parts.join(" · ");
  }

  /** Show the figures of the library; where the list is shown, load the rest of it, which folders and orders need. */
  async function show(status, isListed) {
    figures = status;
    drawFacts();
    if (isListed) await library.all();
  }

  function heading(own) {
    const choose = () => {
      folder.value = own;
      folder.dispatchEvent(new Event("change"));
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
    box.checked = choice.names.has(name);
    box.addEventListener("change", () => choice.set([name], box.checked));
    return element(
      "li",
      { "data-name": name },
      element("span", { class: "choose" }, box),
      element(
        "a",
        { class: "document", href: address("document", { name }), title: name },
        element("span", { class: "name" }, isGrouped ? withoutFolder(name) : name),
        ...known,
        element("span", { class: "facts" }, ...facts),
      ),
      element(
        "span",
        { class: "actions" },
        element(
          "a",
          { class: "button quiet small", href: address("ask", { document: name }), "aria-label": `Ask ${name}` },
          "Ask",
        ),
        action("Append", `Append to ${name}`, () => append(name)),
        action("Delete", `Delete ${name}`, () => remove(name)),
      ),
    );
  }

  function action(word, label, onclick) {
    return element("button", { type: "button", class: "quiet small changes", "aria-label": label, onclick }, word);
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
      say(problem, fault);
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
      ...found.flatMap(({ document: name, sentences }) =>
        sentences.map(({ text, start, end, place }) =>
          element(
            "li",
            { class: "answer" },
            element(
              "a",
              { class: "card", href: address("document", { name, start, end, phrase: text }) },
              element("q", { class: "quote" }, ...marked(text, wanted)),
              element("p", { class: "source" }, element("span", { class: "name" }, name), place ?? ""),
            ),
          ),
        ),
      ),
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
    choice.set(matching().map(({ name }) => name), true);
    draw();
  });
  more.addEventListener("click", () =>
    working(more, problem, async () => {
      rows += ROWS;
      if (library.next !== null && rows > library.shown.length) await library.more();
      draw();
      say(byId("library-said"), { message: `${count(Math.min(rows, matching().length))} documents are shown.` });
    }),
  );
  library.addEventListener("change", draw);
  // Update the ages while the page is open.
  setInterval(() => {
    for (const moment of list.querySelectorAll("time")) moment.textContent = age(moment.dateTime);
  }, 30_000);

  return { focusNear, show };
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
