// Light or dark theme: the system's, until a person chooses one. A classic script and not a module: it runs before
// the first paint, so that the page does not flash in the other theme.
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const KEPT = "attar.theme";

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  // If the browser blocks storage, the choice lasts as long as the page.
  const kept = () => {
    try {
      return localStorage.getItem(KEPT);
    } catch {
      return null;
    }
  };
  const keep = (theme) => {
    try {
      localStorage.setItem(KEPT, theme);
    } catch {
      /* the choice is not remembered */
    }
  };

  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => button.setAttribute("aria-pressed", String(isDark()));
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      keep(root.dataset.theme);
      show();
    });
    system.addEventListener("change", show);
    show();
  });
}
