({
  // The colours of each text that is shown, and of what lies behind it.
  contrasts: () => {
    const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b]
      .map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = channels(getComputedStyle(at).backgroundColor);
        if (colour.length === 3) return colour;
      }
    };
    const texts = "h1 a, h2, h3, p, q, a, mark, label, button, select, .facts span, time, figcaption *, li span";
    return [...document.querySelectorAll(texts)]
      .filter((element) => element.checkVisibility() && element.textContent.trim() && !element.disabled)
      .filter((element) => !element.classList.contains("skip"))
      .map((element) => {
        const pair = [light(channels(getComputedStyle(element).color)), light(behind(element))];
        const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        return [contrast, element.textContent.trim().slice(0, 40)];
      });
  },
  // Controls that a screen reader has no name for.
  nameless: () => [...document.querySelectorAll("a, button, input, select, textarea, canvas, svg, progress")]
    .filter((element) => element.checkVisibility() && !element.closest("[aria-hidden=true]"))
    .filter((element) => !element.labels?.length && !element.getAttribute("aria-label")
      && !element.textContent.trim())
    .map((element) => element.outerHTML),
})
