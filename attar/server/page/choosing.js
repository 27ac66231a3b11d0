// Several documents at once: chosen in the list, then asked, tagged or deleted together.

import { byId, say, working } from "./elements.js";
import { count, counted } from "./figures.js";
import { go } from "./routes.js";
import { tagDocuments } from "./server.js";

/** Start choosing; `remove(...names)` is called for those to delete, `cleared()` when none is chosen any more. */
export function startChoosing({ library, remove, cleared }) {
  const names = new Set();

  function draw() {
    const there = new Set(library.shown.map(({ name }) => name));
    for (const name of names) if (!there.has(name)) names.delete(name);
    byId("chosen").hidden = !names.size;
    byId("chosen-line").textContent = `${count(names.size)} chosen`;
  }

  function set(some, isChosen) {
    for (const name of some) {
      if (isChosen) names.add(name);
      else names.delete(name);
    }
    draw();
  }

  byId("chosen-ask").addEventListener("click", () => go("ask", { chosen: JSON.stringify([...names]) }));
  byId("chosen-delete").addEventListener("click", () => remove(...names));
  byId("chosen-clear").addEventListener("click", () => {
    set([...names], false);
    cleared();
  });
  startTagging({ library, chosen: () => library.shown.filter(({ name }) => names.has(name)) });

  return { names, set, draw };
}

/** The dialog for the tags that all chosen documents have. */
function startTagging({ library, chosen }) {
  const [dialog, form, field] = [byId("tags-dialog"), byId("tags-form"), byId("tags")];
  let documents = [];
  let common = [];

  byId("chosen-tag").addEventListener("click", () => {
    documents = chosen();
    const [{ tags: first }, ...others] = documents;
    common = first.filter((tag) => others.every(({ tags }) => tags.includes(tag)));
    field.value = common.join(", ");
    byId("tags-heading").textContent = `Tags of ${counted(documents.length, "document")}`;
    say(byId("tags-problem"), null);
    dialog.showModal();
  });
  byId("tags-cancel").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    working(form.querySelector("[type=submit]"), byId("tags-problem"), async () => {
      const wanted = tagsIn(field.value);
      const removed = common.filter((tag) => !wanted.includes(tag));
      await tagDocuments(documents.map(({ name }) => name), wanted, removed);
      for (const document of documents) {
        const kept = document.tags.filter((tag) => !removed.includes(tag));
        library.put({ ...document, tags: [...new Set([...kept, ...wanted])] });
      }
      dialog.close();
    });
  });
}

/** "paid, new" → ["paid", "new"] */
export function tagsIn(written) {
  return [...new Set(written.split(",").map((tag) => tag.trim()).filter(Boolean))];
}
