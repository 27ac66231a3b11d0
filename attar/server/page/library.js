// The list of documents, loaded page by page; one of them is selected.

import { byId, element, say, working } from "./elements.js";
import { age, bytes, count, counted } from "./figures.js";
import { listDocuments } from "./server.js";

/** Start the list; `chosen(name)`, `append(name)` and `remove(name)` are called on clicks. */
export function startLibrary({ chosen, append, remove, isHidden }) {
  const list = byId("documents");
  let documents = [];
  let next = null;
  let current = null;

  const visible = () => documents.filter((document) => !isHidden(document.name));

  function draw() {
    const rows = visible();
    list.replaceChildren(...rows.map(row));
    byId("no-documents").hidden = rows.length > 0 || next !== null;
    byId("more-documents").hidden = next === null;
    const shown = next === null ? counted(rows.length, "document") : `${count(rows.length)} shown`;
    byId("library-count").textContent = shown;
    if (next !== null) byId("go-to").hidden = false;
  }

  function row({ name, title, tokens, bytes: size, changed: moment, fault }) {
    const when = element("time", { datetime: moment, title: new Date(moment).toLocaleString() }, age(moment));
    const sizes = [counted(tokens, "token"), bytes(size)].map((text) => element("span", {}, text));
    const facts = element("span", { class: "facts" }, ...(fault ? [`damaged: ${fault}`] : [...sizes, when]));
    const heading = element("span", { class: "name" }, name);
    const known = title && title !== name ? [element("span", { class: "title" }, title)] : [];
    const isCurrent = name === current && "true";
    return element(
      "li",
      { "data-name": name },
      element(
        "button",
        { type: "button", class: "document", "aria-current": isCurrent, onclick: () => choose(name, true) },
        heading,
        ...known,
        facts,
      ),
      action("Append", `Append to ${name}`, () => append(name)),
      action("Delete", `Delete ${name}`, () => remove(name)),
    );
  }

  function action(word, label, onclick) {
    return element("button", { type: "button", class: "quiet small", "aria-label": label, onclick }, word);
  }

  /** Select a document; `byHand`: scroll to the question, which is below the list on a phone. */
  function choose(name, byHand = false) {
    current = name;
    for (const button of list.querySelectorAll(".document")) {
      if (button.parentElement.dataset.name === name) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    chosen(name);
    if (byHand && matchMedia("(max-width: 700px)").matches) byId("ask").scrollIntoView();
  }

  async function load(after = null, more = false) {
    say(byId("library-problem"), null);
    try {
      const page = await listDocuments(after);
      documents = more ? [...documents, ...page.documents] : page.documents;
      next = page.next ?? null;
      draw();
    } catch (problem) {
      say(byId("library-problem"), problem);
    }
  }

  /** Insert or update a document, if its place is in the pages loaded so far. */
  function put(facts) {
    const others = documents.filter(({ name }) => name !== facts.name);
    const index = others.findIndex(({ name }) => name > facts.name);
    if (index >= 0) others.splice(index, 0, facts);
    else if (next === null) others.push(facts);
    documents = others;
    draw();
  }

  /** Remove a document from the list. */
  function drop(gone) {
    documents = documents.filter(({ name }) => name !== gone);
    draw();
  }

  /** Focus a document's row, or the next one if it was removed. */
  function focusNear(name) {
    const rows = visible();
    const near = rows.find((document) => document.name >= name) ?? rows.at(-1);
    const item = near && [...list.children].find((child) => child.dataset.name === near.name);
    (item?.querySelector(".document") ?? byId("add-name")).focus();
  }

  const moreButton = byId("more-documents");
  moreButton.addEventListener("click", () =>
    working(moreButton, byId("library-problem"), () => load(next, true)),
  );
  byId("go-to").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = byId("go-to-name").value;
    load(name ? justBefore(name) : null);
  });
  // Update the ages while the page is open.
  setInterval(() => {
    for (const moment of list.querySelectorAll("time")) moment.textContent = age(moment.dateTime);
  }, 30_000);

  return { load, draw, put, drop, choose, focusNear, current: () => current };
}

/** A name directly before this one: a page starts after a name, not at it. */
function justBefore(name) {
  const letters = [...name];
  const last = letters.pop().codePointAt(0);
  const before = last === 0xe000 ? 0xd7ff : last - 1;
  return before < 0 ? letters.join("") : letters.join("") + String.fromCodePoint(before, 0x10ffff);
}
