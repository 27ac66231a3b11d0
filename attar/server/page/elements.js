// Finding and creating elements. Text is never parsed as markup: a document's name may be anything.

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Create an element; functions become listeners (onclick), false attributes are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Show a problem's message, or hide the line if there is none. */
export function say(line, problem) {
  line.textContent = problem ? problem.message : "";
  line.hidden = !problem;
}

/** Run work with its button disabled; a problem is shown in `line`. */
export async function working(button, line, work) {
  say(line, null);
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await work();
  } catch (problem) {
    say(line, problem);
    return undefined;
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
  }
}

/** Ask for a line of text in a dialog, which is closed when `work(text)` is done; `problem` is why it is asked for. */
export function askFor({ title, about, label, type, value, action }, work, problem = null) {
  const [dialog, field, submit, line] = ["dialog", "dialog-field", "dialog-submit", "dialog-problem"].map(byId);
  if (dialog.open) return;
  byId("dialog-title").textContent = title;
  byId("dialog-about").textContent = about;
  byId("dialog-label").textContent = label;
  submit.textContent = action;
  Object.assign(field, { type, value });
  say(line, problem);
  byId("dialog-cancel").onclick = () => dialog.close();
  byId("dialog-form").onsubmit = (event) => {
    event.preventDefault();
    working(submit, line, async () => {
      await work(field.value);
      dialog.close();
    });
  };
  dialog.showModal();
  field.select();
}
