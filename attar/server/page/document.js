// One document: its text, with a phrase highlighted and scrolled to.

import { byId, element, say } from "./elements.js";
import { age, words, written } from "./figures.js";
import { textBlocks } from "./text.js";
import { address, go } from "./routes.js";
import { showDocument } from "./server.js";

// Of a longer text a part is shown at first, as many characters before and after the phrase.
const LONG = 300_000;
const AROUND = 50_000;

/** Start the view; `append(name)` and `remove(name)` are called on clicks. */
export function startDocument({ append, remove }) {
  const [back, shown, problem] = [byId("document-back"), byId("document-shown"), byId("document-problem")];
  const [body, whole] = [byId("document-text"), byId("document-whole")];
  let values = {};
  let cameFrom = null;

  async function show(given, before) {
    values = given;
    if (before !== "document") cameFrom = before;
    back.textContent = cameFrom === "ask" ? "Back to the answers" : "All documents";
    say(problem, null);
    shown.hidden = true;
    try {
      const document = await showDocument(values.name ?? "");
      if (values !== given) return;
      draw(document);
    } catch (fault) {
      if (values === given) say(problem, fault);
    }
  }

  function draw(document) {
    const { name, title, text, tokens, date, changed } = document;
    byId("document-heading").textContent = title || name;
    const known = [title && title !== name ? name : "", date ? written(date) : ""].filter(Boolean);
    const facts = [...known, words(tokens), `changed ${age(changed)}`];
    byId("document-facts").textContent = facts.join(" · ");
    byId("document-actions").replaceChildren(
      element("a", { class: "button", href: address("ask", { document: name }) }, "Ask this document"),
      ...(text === null ? [] : [download(name, text)]),
      element("button", { type: "button", class: "quiet changes", onclick: () => append(name) }, "Append"),
      element("button", { type: "button", class: "quiet changes", onclick: () => remove(name) }, "Delete"),
    );
    byId("document-no-text").hidden = text !== null;
    shown.hidden = false;
    window.document.title = `${title || name} · Attar`;
    const [start, end] = text === null ? [0, 0] : spanOf(text, values);
    drawText(text ?? "", start, end, (text ?? "").length > LONG);
    const mark = body.querySelector("mark");
    byId("document-heading").focus({ preventScroll: true });
    mark?.scrollIntoView({ block: "center" });
  }

  function drawText(text, start, end, isLong) {
    const from = isLong ? Math.max(0, start - AROUND) : 0;
    const to = isLong ? Math.min(text.length, Math.max(end, start) + AROUND) : text.length;
    body.replaceChildren(...textBlocks(text, from, to, start, end));
    whole.hidden = !isLong;
    whole.onclick = () => {
      drawText(text, start, end, false);
      body.querySelector("mark")?.scrollIntoView({ block: "center" });
    };
  }

  back.addEventListener("click", (event) => {
    event.preventDefault();
    if (cameFrom === "ask" || cameFrom === "documents") history.back();
    else go("documents");
  });

  return { show };
}

/** Where the phrase is: by the server's count of characters, or else where it first occurs. */
function spanOf(text, { start, end, phrase }) {
  if (start !== undefined && end !== undefined) return [unitsOf(text, Number(start)), unitsOf(text, Number(end))];
  const at = phrase ? text.indexOf(phrase) : -1;
  return at < 0 ? [0, 0] : [at, at + phrase.length];
}

/** The server counts characters; a string's index counts units of UTF-16, of which an emoji has two. */
function unitsOf(text, characters) {
  let units = 0;
  for (let seen = 0; seen < characters && units < text.length; seen += 1) {
    units += text.codePointAt(units) > 0xffff ? 2 : 1;
  }
  return units;
}

/** A button that saves a document's text as a file; the file that it came from is not kept. */
function download(name, text) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    element("a", { href: url, download: `${name.split("/").at(-1)}.txt` }).click();
    URL.revokeObjectURL(url);
  };
  return element("button", { type: "button", class: "quiet", onclick: save }, "Save the text");
}
