// The list of documents: search, open, ask, append, delete.

import { marked } from "./answers.js";
import { byId, element, say, working } from "./elements.js";
import { age, bytes, count, counted, seconds, words, written } from "./figures.js";
import { address } from "./routes.js";
import { search, status } from "./server.js";

// Rows that are drawn at once, and the milliseconds without a key after which texts are searched.
const ROWS = 100;
const PAUSE = 250;

/** Start the view; `append(name)` and `remove(name)` are called on clicks. */
export function startDocuments({ library, append, remove }) {
  const [list, filter, more] = [byId("document-list"), byId("filter"), byId("more-documents")];
  const problem = byId("library-problem");
  let rows = ROWS;
  // Of names that match: the ones that were not loaded with the list.
  let others = [];
  let timer = 0;
  let figures = {};

  function matching() {
    const wanted = filter.value.trim().toLowerCase();
    const all = [...library.shown, ...others.filter(({ name }) => !library.leaving.has(name))];
    const matches = ({ name, title }) => `${name}\n${title ?? ""}`.toLowerCase().includes(wanted);
    return wanted ? all.filter(matches) : all;
  }

  function draw() {
    const found = matching();
    list.replaceChildren(...found.slice(0, rows).map(row));
    more.hidden = found.length <= rows && (library.next === null || filter.value.trim() !== "");
    drawFacts();
    const none = byId("no-documents");
    none.hidden = found.length > 0 || !library.isLoaded;
    none.textContent = library.count ? "No name matches." : "There are no documents yet.";
    filter.hidden = library.isLoaded && library.count === 0;
    return found.length;
  }

  function drawFacts() {
    const parts = library.isLoaded ? [counted(library.count, "document")] : [];
    if (figures.file_bytes) parts.push(`${bytes(figures.file_bytes)} on disk`);
    if (figures.questions) parts.push(`${counted(figures.questions, "question")} answered, in ${seconds(figures.question_seconds)} each`);
    if (figures.signatures) {
      const { done, total } = figures.signatures;
      parts.push(`being prepared for search: ${count(done)} of ${count(total)}`);
    }
    byId("library-facts").textContent = parts.join(" · ");
  }

  /** Read the figures of the library, and whether it can be changed. */
  async function show() {
    try {
      figures = await status();
    } catch {
      figures = {};
    }
    document.body.classList.toggle("read-only", Boolean(figures.read_only));
    drawFacts();
  }

  function row({ name, title, tokens, date, changed: moment, fault }) {
    const when = element("time", { datetime: moment, title: new Date(moment).toLocaleString() }, age(moment));
    const sizes = [...(date ? [written(date)] : []), words(tokens)].map((text) => element("span", {}, text));
    const facts = fault ? [`damaged: ${fault}`] : [...sizes, when];
    const known = title && title !== name ? [element("span", { class: "title" }, title)] : [];
    return element(
      "li",
      { "data-name": name },
      element(
        "a",
        { class: "document", href: address("document", { name }) },
        element("span", { class: "name" }, name),
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
      const [named, found] = await Promise.all([library.matching(wanted), search(wanted)]);
      if (wanted !== filter.value.trim()) return;
      const known = new Set(library.documents.map(({ name }) => name));
      others = named.filter(({ name }) => !known.has(name));
      showPassages(found, wanted);
      const shown = draw();
      byId("filter-said").textContent = `${counted(shown, "name")} match.`;
    } catch (fault) {
      say(problem, fault);
    }
  }

  function showPassages(found, wanted) {
    byId("passages").hidden = !found.length;
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
    const names = [...list.children].map((child) => child.dataset.name);
    const near = names.find((other) => other >= name) ?? names.at(-1);
    const item = [...list.children].find((child) => child.dataset.name === near);
    (item?.querySelector(".document") ?? byId("files")).focus();
  }

  filter.addEventListener("input", () => {
    rows = ROWS;
    draw();
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  more.addEventListener("click", () =>
    working(more, problem, async () => {
      rows += ROWS;
      if (library.next !== null && rows > library.shown.length) await library.more();
      draw();
      say(byId("library-said"), { message: `${count(list.children.length)} documents are shown.` });
    }),
  );
  library.addEventListener("change", draw);
  // Update the ages while the page is open.
  setInterval(() => {
    for (const moment of list.querySelectorAll("time")) moment.textContent = age(moment.dateTime);
  }, 30_000);

  return { focusNear, show };
}
