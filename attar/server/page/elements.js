// Elements of the page, found and made. Text is always text, never markup: a document's name may be anything.

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** A new element; attributes that are functions listen (onclick), false ones are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Show one line of what went wrong, or take it away again. */
export function say(line, problem) {
  line.textContent = problem ? problem.message : "";
  line.hidden = !problem;
}

/** While the work goes on its button cannot be pressed again; what goes wrong is said in `line`. */
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
