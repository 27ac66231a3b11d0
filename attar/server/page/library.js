// The library: its documents, page by page, one of them chosen.

import { byId, element, say, working } from "./elements.js";
import { age, bytes, count, counted } from "./figures.js";
import { listDocuments } from "./server.js";

/** The list of documents. `chosen(name)`, `append(name)` and `remove(name)` hear what a person wants. */
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

  function row({ name, title, tokens, bytes: size, changed: moment }) {
    const when = element("time", { datetime: moment, title: new Date(moment).toLocaleString() }, age(moment));
    const sizes = [counted(tokens, "token"), bytes(size)].map((text) => element("span", {}, text));
    const facts = element("span", { class: "facts" }, ...sizes, when);
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

  /** Make a document the one that is asked; `byHand`: on a phone the question lies below, and is brought up. */
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
      const told = await listDocuments(after);
      documents = more ? [...documents, ...told.documents] : told.documents;
      next = told.next ?? null;
      draw();
    } catch (problem) {
      say(byId("library-problem"), problem);
    }
  }

  /** Put a document that was added or has grown where it belongs, if the pages so far reach there. */
  function put(facts) {
    const others = documents.filter(({ name }) => name !== facts.name);
    const behind = others.findIndex(({ name }) => name > facts.name);
    if (behind >= 0) others.splice(behind, 0, facts);
    else if (next === null) others.push(facts);
    documents = others;
    draw();
  }

  /** Forget a document that the server has no more. */
  function drop(gone) {
    documents = documents.filter(({ name }) => name !== gone);
    draw();
  }

  /** Put the focus on a document's row or, where it was taken away, on the row that takes its place. */
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
  // Ages grow while the page is open.
  setInterval(() => {
    for (const moment of list.querySelectorAll("time")) moment.textContent = age(moment.dateTime);
  }, 30_000);

  return { load, draw, put, drop, choose, focusNear, current: () => current };
}

/** A name that comes before this one and behind nearly all that do: pages begin behind a name, not at it. */
function justBefore(name) {
  const letters = [...name];
  const last = letters.pop().codePointAt(0);
  const before = last === 0xe000 ? 0xd7ff : last - 1;
  return before < 0 ? letters.join("") : letters.join("") + String.fromCodePoint(before, 0x10ffff);
}
