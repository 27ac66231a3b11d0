// Light or dark: as the system has it, until a person says otherwise. Loaded before the page is painted, so
// that a chosen theme does not flash in the other one first; hence no module.
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const KEPT = "attar.theme";

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  // A browser may refuse to keep anything; then the choice lasts as long as the page.
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
      /* nothing is lost but the habit */
    }
  };

  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => {
      button.setAttribute("aria-pressed", String(isDark()));
      document.dispatchEvent(new Event("themechange"));
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      keep(root.dataset.theme);
      show();
    });
    system.addEventListener("change", show);
    show();
  });
}
