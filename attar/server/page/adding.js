// What adds documents: files that are chosen, or dropped anywhere on the page, and pasted texts, which may be appended.

import { byId, element, working } from "./elements.js";
import { bytes, counted, wholePercent } from "./figures.js";
import { tagsIn } from "./library.js";
import { address } from "./routes.js";
import { Problem, appendTo, cancelJob, putDocument, sendFile, showDocument } from "./server.js";

// The longest name that is made of a text's first words.
const LONGEST = 50;

/** The folder that documents are added to, with a slash at its end or "", and their tags. */
function labels() {
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

// What programs leave in folders.
const LEFT = /^(\.|~\$|Thumbs\.db$|desktop\.ini$)/i;

/** Start; `started()` is called when files were given, `added(name)` after each new or changed document. */
export function startUploads({ started, added }) {
  const [list, input, overlay] = [byId("upload-list"), byId("files"), byId("dropping")];
  const waiting = [];
  let isSending = false;
  let done = 0;
  let all = 0;

  /** Send files, which may have a path below a folder that was dropped. */
  function take(files) {
    if (!files.length) return;
    started();
    const { folder, tags } = labels();
    if (!waiting.length && !isSending) done = all = 0;
    byId("uploads").hidden = false;
    for (const { file, path } of files) {
      const row = makeRow(file);
      list.append(row.item);
      waiting.push({ file, row, sent: { name: folder + path, tags, replace: false } });
      all += 1;
    }
    send();
  }

  function makeRow(file) {
    const bar = element("progress", { max: 1, value: 0, "aria-label": `Sending ${file.name}` });
    const state = element("span", { class: "state" }, "Waiting");
    const actions = element("span", { class: "actions" });
    const name = element("span", { class: "name" }, file.name);
    const size = element("span", { class: "aside" }, bytes(file.size));
    const item = element("li", {}, element("span", { class: "what" }, name, size), bar, state, actions);
    return { item, bar, state, actions };
  }

  async function send() {
    if (isSending) return;
    isSending = true;
    while (waiting.length) {
      tell();
      const next = waiting.shift();
      await sendOne(next);
      done += 1;
    }
    isSending = false;
    tell();
  }

  async function sendOne({ file, row, sent }) {
    const { item, bar, state, actions } = row;
    item.className = "sending";
    actions.replaceChildren();
    state.textContent = "Sending";
    try {
      const showShare = (word, share) => {
        bar.value = share;
        state.textContent = share > 0 && share < 1 ? `${word}, ${wholePercent(share)}` : word;
      };
      const changes = await sendFile(
        file,
        sent,
        (share) => showShare("Sending", share),
        ({ id, state: now, done = 0, total = 0 }) => {
          if (!actions.children.length) actions.append(button("Cancel", () => cancelJob(id)));
          showShare(now === "waiting" ? "Waiting" : "Reading", total ? done / total : 0);
        },
      );
      actions.replaceChildren();
      item.className = isKnown(changes) ? "done known" : "done";
      state.textContent = summary(changes);
      if (changes.length === 1) actions.append(link("Open", "document", changes[0].name));
      for (const { name } of changes) await added(name);
    } catch (fault) {
      item.className = "failed";
      actions.replaceChildren();
      state.textContent = fault.message;
      const again = (replace) => () => {
        all += 1;
        waiting.push({ file, row, sent: { ...sent, replace } });
        send();
      };
      if (fault.status === 409) actions.append(button("Replace it", again(true)));
      else if ([0, 401, 503, 504].includes(fault.status)) actions.append(button("Try again", again(sent.replace)));
    }
    byId("library-said").textContent = `${file.name}: ${state.textContent}`;
  }

  function tell() {
    const files = (state) => counted(list.querySelectorAll(state).length, "file");
    const isBusy = isSending && done < all;
    const parts = isBusy ? [`file ${done + 1} of ${all}`] : [];
    if (!isBusy && list.querySelector(".done:not(.known)")) parts.push(`${files(".done:not(.known)")} added`);
    if (!isBusy && list.querySelector(".known")) parts.push(`${files(".known")} known already`);
    if (list.querySelector(".failed")) parts.push(`${files(".failed")} could not be added`);
    byId("uploads-line").textContent = parts.join(", ");
    byId("clear-uploads").hidden = isBusy;
  }

  input.addEventListener("change", () => {
    // A copy: the list of files empties with the value, so that the same file can be chosen again.
    take([...input.files].map((file) => ({ file, path: file.name })));
    input.value = "";
  });
  byId("welcome-files").addEventListener("click", () => input.click());
  byId("clear-uploads").addEventListener("click", () => {
    list.replaceChildren();
    byId("uploads").hidden = true;
    input.focus();
  });

  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    overlay.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    overlay.hidden = event.relatedTarget === null ? true : overlay.hidden;
  });
  addEventListener("drop", async (event) => {
    overlay.hidden = true;
    if (!carriesFiles(event)) return;
    event.preventDefault();
    take(await dropped(event.dataTransfer));
  });
}

function isKnown(changes) {
  return changes.length > 0 && changes.every(({ change }) => change === "unchanged");
}

function summary(changes) {
  if (!changes.length) return "There is no text in it";
  if (isKnown(changes)) return "Already in the library";
  if (changes.length > 1) return `${counted(changes.length, "document")} added`;
  return changes[0].change === "replaced" ? "Replaced" : "Added";
}

function button(word, onclick) {
  return element("button", { type: "button", class: "quiet small", onclick }, word);
}

function link(word, view, name) {
  const label = `${word} ${name}`;
  return element("a", { class: "button quiet small", href: address(view, { name }), "aria-label": label }, word);
}

/** The files of a drop, those in folders too, each with its path below what was dropped. */
export async function dropped({ items, files }) {
  // All entries are asked for at once: they are gone after the first wait.
  const entries = [...items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry?.() ?? null);
  const found = [...files].map((file, at) =>
    entries[at]?.isDirectory ? filesBelow(entries[at]) : [{ file, path: file.name }],
  );
  return (await Promise.all(found)).flat();
}

async function filesBelow(folder) {
  const found = [];
  for (const entry of await entriesOf(folder)) {
    if (LEFT.test(entry.name)) continue;
    if (entry.isDirectory) found.push(...(await filesBelow(entry)));
    else found.push({ file: await fileOf(entry), path: entry.fullPath.replace(/^\//, "") });
  }
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** All entries of a folder, of which a browser reads a hundred at a time. */
async function entriesOf(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return all;
    all.push(...some);
  }
}

function fileOf(entry) {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
