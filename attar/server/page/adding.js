// The form that adds a pasted text, or appends one to a document; and what is given to everything that is added.

import { byId, working } from "./elements.js";
import { bytes, counted } from "./figures.js";
import { tagsIn } from "./library.js";
import { Problem, appendTo, putDocument, showDocument } from "./server.js";

// The longest name that is made of a text's first words.
const LONGEST = 50;

/** The folder that documents are added to, with a slash at its end or "", and their tags. */
export function labels() {
  const folder = byId("add-folder").value.trim().replace(/^\/+|\/+$/g, "");
  return { folder: folder ? `${folder}/` : "", tags: tagsIn(byId("add-tags").value) };
}

/** Start the form; `changed(document, was)` is called after each change. */
export function startPasting({ changed }) {
  const [form, name, text] = [byId("add"), byId("add-name"), byId("add-text")];
  const [problem, taken, opener] = [byId("add-problem"), byId("add-taken"), byId("open-paste")];
  const submit = form.querySelector("[type=submit]");

  /** Open or close the form; with a name, to append to that document. */
  function open(isOpen, whose = "") {
    form.hidden = !isOpen;
    opener.setAttribute("aria-expanded", String(isOpen));
    if (whose) {
      byId("add-folder").value = "";
      name.value = whose;
      isTaken(whose);
    }
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
      return changed(document, change === "append" ? "has grown" : "was added");
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

/** A name for a text that was given none. */
function firstWords(text) {
  const [line] = text.trim().split("\n");
  if (line.length <= LONGEST) return line.replace(/[\s,.;:]+$/, "");
  return line.slice(0, LONGEST).replace(/\s+\S*$/, "");
}
