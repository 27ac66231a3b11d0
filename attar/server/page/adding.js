// The form that adds a pasted text, and the dialog that appends to a document.

import { byId, say, working } from "./elements.js";
import { bytes, counted } from "./figures.js";
import { labels } from "./labels.js";
import { Problem, appendTo, putDocument, showDocument } from "./server.js";

// The longest name that is made of a text's first words.
const LONGEST = 50;

/** Start the form; `added(document)` and `appended(document)` are called after each change. */
export function startPasting({ added, appended, before }) {
  const [form, name, text] = [byId("add"), byId("add-name"), byId("add-text")];
  const [problem, taken, opener] = [byId("add-problem"), byId("add-taken"), byId("open-paste")];
  const submit = form.querySelector("[type=submit]");

  function open(isOpen) {
    form.hidden = !isOpen;
    opener.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) text.focus();
  }

  function showSize() {
    const words = text.value.trim() ? text.value.trim().split(/\s+/).length : 0;
    const size = new TextEncoder().encode(text.value).length;
    byId("add-size").textContent = words ? `${counted(words, "word")} · ${bytes(size)}` : "";
  }

  function isTaken(whose) {
    taken.hidden = whose === null;
    byId("add-taken-line").textContent = whose === null ? "" : `“${whose}” is already in the library.`;
  }

  const send = (change) =>
    working(submit, problem, async () => {
      isTaken(null);
      const { folder, tags } = labels();
      const [whose, what] = [folder + (name.value.trim() || firstWords(text.value)), text.value];
      if (!what.trim()) throw new Problem("There is no text yet. Paste one, or choose files.");
      before(whose);
      try {
        await (change === "append" ? appendTo(whose, what) : putDocument(whose, what, change === "replace", tags));
      } catch (fault) {
        if (fault.status === 409) return isTaken(whose);
        throw fault;
      }
      const document = await showDocument(whose);
      form.reset();
      showSize();
      open(false);
      return change === "append" ? appended(document) : added(document);
    });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send("add");
  });
  opener.addEventListener("click", () => open(form.hidden));
  byId("add-append").addEventListener("click", () => send("append"));
  byId("add-replace").addEventListener("click", () => send("replace"));
  name.addEventListener("input", () => isTaken(null));
  text.addEventListener("input", showSize);

  return { open };
}

/** Start the dialog that appends to a document; returns the function that opens it. */
export function startAppending({ appended }) {
  const [dialog, form, text] = [byId("append-dialog"), byId("append-form"), byId("append-text")];
  let name = null;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    working(form.querySelector("[type=submit]"), byId("append-problem"), async () => {
      const [whose, what] = [name, text.value];
      if (!what.trim()) throw new Problem("There is no text yet.");
      await appendTo(whose, what);
      const document = await showDocument(whose);
      dialog.close();
      appended(document);
    });
  });
  byId("append-cancel").addEventListener("click", () => dialog.close());

  return (whose) => {
    name = whose;
    form.reset();
    say(byId("append-problem"), null);
    byId("append-heading").textContent = `Append to ${whose}`;
    dialog.showModal();
    text.focus();
  };
}

/** A name for a text that was given none. */
function firstWords(text) {
  const [line] = text.trim().split("\n");
  if (line.length <= LONGEST) return line.replace(/[\s,.;:]+$/, "");
  return line.slice(0, LONGEST).replace(/\s+\S*$/, "");
}
