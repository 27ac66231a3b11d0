// The form that adds a document from text or a file, and the dialog that appends to one.

import { byId, say, working } from "./elements.js";
import { bytes, counted } from "./figures.js";
import { Problem, appendTo, putDocument, showDocument } from "./server.js";

/** Start the form; `added(facts, text)` and `appended(facts, text)` are called after each change. */
export function startAdding({ added, appended, beforeAdding }) {
  const form = byId("add");
  const [name, text, file] = [byId("add-name"), byId("add-text"), byId("add-file")];
  const [problem, taken] = [byId("add-problem"), byId("add-taken")];
  const submit = form.querySelector("[type=submit]");

  function showSize() {
    const words = text.value.trim() ? text.value.trim().split(/\s+/).length : 0;
    const size = new TextEncoder().encode(text.value).length;
    byId("add-size").textContent = words ? `${counted(words, "word")} · ${bytes(size)}` : "";
  }

  function isTaken(yes) {
    taken.hidden = !yes;
    byId("add-taken-line").textContent = yes ? `“${name.value}” is already in the library.` : "";
  }

  async function take(given) {
    if (!given) return;
    isTaken(false);
    say(problem, null);
    try {
      text.value = await readText(given);
      if (!name.value) name.value = given.name.replace(/\.[^.]+$/, "");
    } catch (fault) {
      say(problem, fault);
    }
    showSize();
  }

  const send = (change) =>
    working(submit, problem, async () => {
      isTaken(false);
      const [whose, what] = [name.value, text.value];
      if (!what.trim()) throw new Problem("There is no text yet. Paste one, or choose a file.");
      beforeAdding(whose);
      try {
        await (change === "append" ? appendTo(whose, what) : putDocument(whose, what, change === "replace"));
      } catch (fault) {
        if (fault.status === 409) return isTaken(true);
        throw fault;
      }
      const facts = await showDocument(whose);
      form.reset();
      showSize();
      return change === "append" ? appended(facts, what) : added(facts, what);
    });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send("add");
  });
  byId("add-append").addEventListener("click", () => send("append"));
  byId("add-replace").addEventListener("click", () => send("replace"));
  name.addEventListener("input", () => isTaken(false));
  text.addEventListener("input", showSize);
  file.addEventListener("change", () => take(file.files[0]));

  // A file may be dropped anywhere on the page; by default the browser would open a file dropped outside the form.
  const carriesFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragover", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    form.classList.add("over");
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? form.classList.remove("over"));
  addEventListener("drop", (event) => {
    form.classList.remove("over");
    if (!carriesFile(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
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
      const facts = await showDocument(whose);
      dialog.close();
      appended(facts, what);
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

/** The text of a file; refused if it is not UTF-8. */
async function readText(file) {
  const refused = new Problem(`“${file.name}” is not UTF-8 text.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (text.includes("\0")) throw refused;
    return text;
  } catch {
    throw refused;
  }
}
