// One document: its text, with a phrase highlighted and scrolled to.

import { byId, element, say } from "./elements.js";
import { age, bytes, counted } from "./figures.js";
import { address, go } from "./routes.js";
import { showDocument } from "./server.js";

// Of a longer text a part is shown at first, as many characters before and after the phrase.
const LONG = 300_000;
const AROUND = 50_000;
const PARAGRAPH_END = /\n[ \t\r]*\n\s*/g;
// A line that was broken because it was full, and goes on.
const FULL_LINE = /([^\n]{60,140})(\r?\n)(?=\S)(?![-*•–] |\d+[.)] )/g;

/** Start the view; `append(name)` and `remove(name)` are called on clicks. */
export function startDocument({ library, append, remove }) {
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
    const { name, title, text, tokens, bytes: size, date, changed } = document;
    byId("document-heading").textContent = title || name;
    const known = [title && title !== name ? name : "", date ? `of ${date}` : ""].filter(Boolean);
    const facts = [...known, counted(tokens, "token"), `${bytes(size)} of memory`, age(changed)];
    byId("document-facts").textContent = facts.join(" · ");
    byId("document-actions").replaceChildren(
      element("a", { class: "button", href: address("ask", { document: name }) }, "Ask this document"),
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
    body.replaceChildren(...paragraphs(text, from, to, start, end));
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
  // Its text, size and date have changed.
  library.addEventListener("change", () => {
    const isShown = !byId("view-document").hidden && !shown.hidden;
    if (isShown && library.leaving.has(values.name)) go("documents");
  });

  return { show, name: () => values.name };
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

/** The paragraphs of a part of a text; what of the phrase lies in each is marked. */
function paragraphs(text, from, to, start, end) {
  // As long as before, so that places stay the same.
  const flowing = text.replace(FULL_LINE, (_, line, broken) => line + " ".repeat(broken.length));
  const made = [];
  let at = from;
  for (const gap of [...flowing.slice(from, to).matchAll(PARAGRAPH_END), null]) {
    const until = gap === null ? to : from + gap.index;
    const [low, high] = [Math.max(at, start), Math.min(until, end)];
    const parts =
      low < high
        ? [flowing.slice(at, low), element("mark", {}, flowing.slice(low, high)), flowing.slice(high, until)]
        : [flowing.slice(at, until)];
    if (until > at) made.push(element("p", {}, ...parts));
    at = gap === null ? to : until + gap[0].length;
  }
  return made;
}
