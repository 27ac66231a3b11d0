({
  // What the page sees when files with these texts are dropped on its footer.
  texts: texts => {
    const dataTransfer = new DataTransfer();
    texts.forEach((text, at) => dataTransfer.items.add(new File([text], `story ${at}.txt`)));
    const event = { bubbles: true, cancelable: true, dataTransfer };
    const target = document.querySelector("footer");
    target.dispatchEvent(new DragEvent("dragover", event));
    window.wasShown = !document.getElementById("dropping").hidden;
    target.dispatchEvent(new DragEvent("drop", event));
  },
  // The paths that the page finds in a folder that is dropped.
  folder: async () => {
    const file = (path) => ({ name: path.split("/").at(-1), fullPath: `/${path}`, isDirectory: false,
      file: (found) => found(new File(["x"], path)) });
    const folder = (name, ...entries) => ({ name, isDirectory: true,
      createReader: () => ({ readEntries: (found) => found(entries.splice(0, 2)) }) });
    const top = folder("a", file("a/2.txt"), file("a/.DS_Store"), file("a/~$2.docx"),
      folder("b", file("a/b/1.txt")), file("a/Thumbs.db"));
    const items = [top, null].map((entry) => ({ kind: "file", webkitGetAsEntry: () => entry }));
    const { dropped } = await import("/adding.js");
    const found = await dropped({ items, files: [new File([], "a"), new File([], "3.txt")] });
    return found.map(({ path }) => path);
  },
})
